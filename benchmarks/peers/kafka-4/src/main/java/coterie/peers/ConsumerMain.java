package coterie.peers;

import java.io.File;

/** {@code ConsumerMain WORK SIZE WARM ROUNDS [FILE]}: one line of JSON on standard output. */
public final class ConsumerMain {
    private ConsumerMain() {
    }

    public static void main(String[] args) throws Exception {
        if (args.length < 4) {
            System.err.println("usage: ConsumerMain WORK SIZE WARM ROUNDS [FILE]");
            System.exit(2);
        }
        int size = Integer.parseInt(args[1]);
        File file = args.length > 4 ? new File(args[4]) : null;
        Rounds.print(args[0], size, Integer.parseInt(args[2]), Integer.parseInt(args[3]),
            round(args[0], size, file));
        System.exit(0); // Kafka's own threads would keep the machine alive
    }

    private static Rounds.Round round(String work, int size, File file) throws Exception {
        switch (work) {
            case "consumer-groups":
                ConsumerGroups trace = new ConsumerGroups(file);
                return trace::play;
            case "uniform":
            case "uniform-unequal":
            case "range":
                Assignors assignor = new Assignors(work, size);
                return assignor::assign;
            case "memory-consumer-members":
                return () -> Memory.of(() -> ConsumerGroups.ofMembers(size));
            default:
                throw new IllegalArgumentException("no work is called " + work);
        }
    }
}

package coterie.peers;

import java.io.File;
import java.util.ArrayList;
import java.util.List;
import kafka.coordinator.group.GroupMetadata;

/** {@code Main WORK SIZE WARM ROUNDS [FILE...]}: one line of JSON on standard output. */
public final class Main {
    private static final long SHUFFLE = 618_033_989L;

    private Main() {
    }

    public static void main(String[] args) throws Exception {
        if (args.length < 4) {
            System.err.println("usage: Main WORK SIZE WARM ROUNDS [FILE...]");
            System.exit(2);
        }
        int size = Integer.parseInt(args[1]);
        List<File> files = new ArrayList<>();
        for (int i = 4; i < args.length; i++) {
            files.add(new File(args[i]));
        }
        Rounds.print(args[0], size, Integer.parseInt(args[2]), Integer.parseInt(args[3]),
            round(args[0], size, files));
        System.exit(0); // Kafka's own threads would keep the machine alive
    }

    private static Rounds.Round round(String work, int size, List<File> files) throws Exception {
        switch (work) {
            case "rearm":
                return () -> Timers.rearm(size, 1);
            case "rearm-shuffled":
                return () -> Timers.rearm(size, SHUFFLE);
            case "fire":
                return () -> Timers.fire(size);
            case "votes":
                List<GroupMetadata> groups = files.isEmpty()
                    ? List.of(Groups.ofMembers(size)) : Groups.ofFile(files.get(0));
                return () -> Groups.select(groups);
            case "expiry":
                return () -> Groups.expire(size);
            case "load":
                Logs logs = new Logs(files);
                return logs::load;
            case "coordinator":
                Coordinators trace = new Coordinators(files.get(0));
                return trace::play;
            case "dump":
                return () -> Logs.dump(files);
            case "memory-timers":
                return () -> Memory.of(() -> Timers.armed(size));
            case "memory-members":
                return () -> Memory.of(() -> Groups.ofMembers(size));
            case "memory-offsets":
                return () -> Memory.of(() -> Groups.ofOffsets(size));
            default:
                throw new IllegalArgumentException("no work is called " + work);
        }
    }
}

package coterie.peers;

import java.io.IOException;
import java.io.InputStream;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;
import java.util.Locale;
import java.util.Properties;

/** Runs a piece of work some times, the first ones unmeasured, and prints one line of JSON. */
final class Rounds {
    /** One round: sets up, measures itself, and answers for itself. */
    interface Round {
        Result run() throws Exception;
    }

    /** Seconds of the measured part, and what it found, as JSON. */
    record Result(double seconds, String answer) {
    }

    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();
    private static final boolean CPU = Boolean.getBoolean("coterie.cpu");

    private Rounds() {
    }

    /**
     * Nanoseconds; with -Dcoterie.cpu=true those that this thread had a core for, without the
     * collector's and the compiler's threads.
     */
    static long now() {
        return CPU ? THREADS.getCurrentThreadCpuTime() : System.nanoTime();
    }

    static void print(String work, long size, int warm, int measured, Round round)
            throws Exception {
        String answer = null;
        double[] seconds = new double[measured];
        for (int i = -warm; i < measured; i++) {
            System.gc(); // the garbage of the round before is not this one's cost
            Result result = round.run();
            if (answer != null && !answer.equals(result.answer())) {
                throw new IllegalStateException(answer + " before, now " + result.answer());
            }
            answer = result.answer();
            if (i >= 0) {
                seconds[i] = result.seconds();
            }
        }
        double[] sorted = seconds.clone();
        Arrays.sort(sorted);
        System.out.printf(Locale.ROOT,
            "{\"work\": \"%s\", \"size\": %d, \"seconds\": %.9f, \"rounds\": %s, \"answer\": %s, "
                + "\"version\": \"kafka %s, java %s\"}%n",
            work, size, sorted[measured / 2], Arrays.toString(seconds), answer,
            version(),
            System.getProperty("java.version"));
    }

    /** Kafka's class that reads this file has moved. */
    private static String version() throws IOException {
        Properties found = new Properties();
        try (InputStream file =
                Rounds.class.getResourceAsStream("/kafka/kafka-version.properties")) {
            found.load(file);
        }
        return found.getProperty("version");
    }
}

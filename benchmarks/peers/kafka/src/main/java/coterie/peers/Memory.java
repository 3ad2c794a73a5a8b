package coterie.peers;

import java.util.function.Supplier;

/** What an object and all that it alone refers to take of the heap: used after, less used before. */
final class Memory {
    private static final int COLLECTIONS = 4;

    private static Object held;

    private Memory() {
    }

    static Rounds.Result of(Supplier<Object> made) {
        held = null;
        long before = used();
        held = made.get();
        long bytes = used() - before;
        return new Rounds.Result(0, Long.toString(bytes));
    }

    private static long used() {
        for (int i = 0; i < COLLECTIONS; i++) {
            System.gc();
        }
        Runtime runtime = Runtime.getRuntime();
        return runtime.totalMemory() - runtime.freeMemory();
    }
}

package coterie.peers;

import org.apache.kafka.server.util.timer.TimerTask;
import org.apache.kafka.server.util.timer.VirtualTimer;

/** Kafka's timing wheel: timers armed anew, as each heartbeat does, and timers that fire. */
final class Timers {
    static final long SPAN_MS = 60_000;

    private static final class Task extends TimerTask {
        private final int key;
        private final long[] sums;

        Task(int key, long[] sums) {
            super(0);
            this.key = key;
            this.sums = sums;
        }

        @Override
        public void run() {
            sums[0]++;
            sums[1] += key;
        }
    }

    private Timers() {
    }

    /** The same in test_timers_bench.py: spread over a minute, equal for both. */
    static long deadline(long index, long salt) {
        return 1 + ((index + salt) * 2_654_435_761L & 0xFFFFFFFFL) % SPAN_MS;
    }

    private static Task[] arm(VirtualTimer timer, int size, long[] sums) {
        Task[] tasks = new Task[size];
        for (int i = 0; i < size; i++) {
            tasks[i] = new Task(i, sums);
            timer.addAt(tasks[i], deadline(i, 0));
        }
        return tasks;
    }

    /** A timer with so many tasks, to be weighed. */
    static Object armed(int size) {
        VirtualTimer timer = new VirtualTimer(0);
        return new Object[] {timer, arm(timer, size, new long[2])};
    }

    /** step: 1 in order of arming; another, prime to the size: all over the memory. */
    static Rounds.Result rearm(int size, long step) {
        long[] sums = new long[2];
        VirtualTimer timer = new VirtualTimer(0);
        Task[] tasks = arm(timer, size, sums);
        int at = 0;
        long began = Rounds.now();
        for (int i = 0; i < size; i++) {
            Task task = new Task(at, sums);
            tasks[at].cancel();
            tasks[at] = task;
            timer.addAt(task, SPAN_MS + deadline(at, 7));
            at = (int) ((at + step) % size);
        }
        double seconds = (Rounds.now() - began) * 1e-9;
        timer.advanceTo(SPAN_MS + SPAN_MS / 2);
        return new Rounds.Result(seconds, "[" + sums[0] + ", " + sums[1] + "]");
    }

    static Rounds.Result fire(int size) {
        long[] sums = new long[2];
        VirtualTimer timer = new VirtualTimer(0);
        arm(timer, size, sums);
        long began = Rounds.now();
        timer.advanceTo(SPAN_MS);
        double seconds = (Rounds.now() - began) * 1e-9;
        return new Rounds.Result(seconds, "[" + sums[0] + ", " + sums[1] + "]");
    }
}

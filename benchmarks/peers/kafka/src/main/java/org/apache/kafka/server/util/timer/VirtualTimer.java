package org.apache.kafka.server.util.timer;

import java.util.concurrent.DelayQueue;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Kafka's TimingWheel (SystemTimer's shape: ticks of 1 ms, wheels of 20) under a clock that the
 * caller moves. It stands in Kafka's package because the wheel's constructor is not public.
 * The queue of buckets is taken from its head, so that no bucket waits for the machine's clock.
 */
public final class VirtualTimer implements Timer {
    private final DelayQueue<TimerTaskList> buckets = new DelayQueue<>();
    private final AtomicInteger count = new AtomicInteger();
    private final TimingWheel wheel;
    private long nowMs;

    public VirtualTimer(long nowMs) {
        this.nowMs = nowMs;
        this.wheel = new TimingWheel(1, 20, nowMs, count, buckets);
    }

    public void addAt(TimerTask task, long deadlineMs) {
        addOrRun(new TimerTaskEntry(task, deadlineMs));
    }

    private void addOrRun(TimerTaskEntry entry) {
        if (!wheel.add(entry) && !entry.cancelled()) {
            entry.timerTask.run();
        }
    }

    /** Moves the clock to {@code untilMs}; runs what falls due, at its own time. */
    public void advanceTo(long untilMs) {
        TimerTaskList bucket;
        while ((bucket = buckets.peek()) != null && bucket.getExpiration() <= untilMs) {
            buckets.remove(bucket);
            nowMs = Math.max(nowMs, bucket.getExpiration());
            wheel.advanceClock(nowMs);
            bucket.flush(this::addOrRun);
        }
        nowMs = Math.max(nowMs, untilMs);
        wheel.advanceClock(nowMs);
    }

    /** When the next bucket falls due, not always a task; Long.MAX_VALUE: never. */
    public long nextMs() {
        TimerTaskList bucket = buckets.peek();
        return bucket == null ? Long.MAX_VALUE : bucket.getExpiration();
    }

    public long nowMs() {
        return nowMs;
    }

    @Override
    public void add(TimerTask task) {
        addAt(task, nowMs + task.delayMs);
    }

    @Override
    public boolean advanceClock(long timeoutMs) {
        advanceTo(nowMs + timeoutMs);
        return true;
    }

    @Override
    public int size() {
        return count.get();
    }

    @Override
    public void close() {
    }
}

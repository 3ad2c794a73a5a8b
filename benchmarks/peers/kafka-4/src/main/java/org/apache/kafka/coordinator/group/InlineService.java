package org.apache.kafka.coordinator.group;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executors;
import java.util.function.Supplier;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.config.AbstractConfig;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.internals.LogContext;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.coordinator.common.runtime.CoordinatorEvent;
import org.apache.kafka.coordinator.common.runtime.CoordinatorEventProcessor;
import org.apache.kafka.coordinator.common.runtime.CoordinatorLoader;
import org.apache.kafka.coordinator.common.runtime.CoordinatorPlayback;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRuntimeMetrics;
import org.apache.kafka.coordinator.common.runtime.PartitionWriter;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfig;
import org.apache.kafka.server.util.timer.Timer;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.VerificationGuard;

/**
 * Kafka's GroupCoordinatorService, whose events run in the thread that adds them. Appends are
 * committed at once by a log that keeps nothing. It stands in Kafka's package because the
 * service's constructor is not public; the public builder starts threads.
 */
public final class InlineService {
    private InlineService() {
    }

    /** Runs events one after another; one that is added by an event runs after it. */
    private static final class Inline implements CoordinatorEventProcessor {
        private final ArrayDeque<CoordinatorEvent> waiting = new ArrayDeque<>();
        private boolean running;

        @Override
        public void enqueueLast(CoordinatorEvent event) {
            waiting.addLast(event);
            drain();
        }

        @Override
        public void enqueueFirst(CoordinatorEvent event) {
            waiting.addFirst(event);
            drain();
        }

        private void drain() {
            if (running) {
                return;
            }
            running = true;
            try {
                for (CoordinatorEvent next = waiting.poll(); next != null; next = waiting.poll()) {
                    next.run();
                }
            } finally {
                running = false;
            }
        }

        @Override
        public void close() {
        }
    }

    private static final class Writer implements PartitionWriter {
        private final LogConfig config = new LogConfig(Map.of());
        private final Map<TopicPartition, Listener> listeners = new HashMap<>();
        private final Map<TopicPartition, Long> ends = new HashMap<>();

        @Override
        public void registerListener(TopicPartition partition, Listener listener) {
            listeners.put(partition, listener);
        }

        @Override
        public void deregisterListener(TopicPartition partition, Listener listener) {
            listeners.remove(partition);
        }

        @Override
        public LogConfig config(TopicPartition partition) {
            return config;
        }

        @Override
        public long append(TopicPartition partition, VerificationGuard guard, MemoryRecords records,
                short transactionVersion) {
            long count = records.firstBatch().lastOffset() + 1;
            long end = ends.merge(partition, count, Long::sum);
            listeners.get(partition).onHighWatermarkUpdated(partition, end);
            return end;
        }

        @Override
        public CompletableFuture<VerificationGuard> maybeStartTransactionVerification(
                TopicPartition partition, String transactionalId, long producerId,
                short producerEpoch, int apiVersion) {
            return CompletableFuture.completedFuture(VerificationGuard.SENTINEL);
        }

        @Override
        public CompletableFuture<Void> deleteRecords(TopicPartition partition, long before) {
            return CompletableFuture.completedFuture(null);
        }
    }

    private static final class Empty implements CoordinatorLoader<CoordinatorRecord> {
        @Override
        public CompletableFuture<LoadSummary> load(TopicPartition partition,
                CoordinatorPlayback<CoordinatorRecord> coordinator) {
            return CompletableFuture.completedFuture(new LoadSummary(0, 0, 0, 0, 0));
        }

        @Override
        public void close() {
        }
    }

    private static final class Unmeasured implements CoordinatorRuntimeMetrics {
        @Override
        public void recordPartitionStateChange(CoordinatorRuntime.CoordinatorState before,
                CoordinatorRuntime.CoordinatorState after) {
        }

        @Override
        public void recordPartitionLoadSensor(long startMs, long endMs) {
        }

        @Override
        public void recordEventQueueTime(long ms) {
        }

        @Override
        public void recordEventProcessingTime(long ms) {
        }

        @Override
        public void recordEventPurgatoryTime(long ms) {
        }

        @Override
        public void recordFlushTime(long ms) {
        }

        @Override
        public void recordLingerTime(long ms) {
        }

        @Override
        public void recordThreadIdleTime(double ms) {
        }

        @Override
        public void recordBackgroundQueueTime(long ms) {
        }

        @Override
        public void recordBackgroundProcessingTime(long ms) {
        }

        @Override
        public void recordBackgroundThreadBusyTime(double ms) {
        }

        @Override
        public void registerEventQueueSizeGauge(Supplier<Integer> size) {
        }

        @Override
        public void registerBufferCacheSizeGauge(Supplier<Long> bytes) {
        }

        @Override
        public void recordBufferCacheDiscarded() {
        }

        @Override
        public void close() {
        }
    }

    /** A service that is started, without an image and not elected for any partition. */
    public static GroupCoordinatorService create(Time time, Timer timer, int partitions) {
        AbstractConfig settings = new AbstractConfig(
            Utils.mergeConfigs(List.of(GroupCoordinatorConfig.CONFIG_DEF, ShareGroupConfig.CONFIG_DEF)),
            Map.of(GroupCoordinatorConfig.GROUP_COORDINATOR_APPEND_LINGER_MS_CONFIG, 0), false);
        GroupCoordinatorConfig config = new GroupCoordinatorConfig(settings);
        GroupConfigManager groups =
            new GroupConfigManager(config, new ShareGroupConfig(settings));
        GroupCoordinatorMetrics metrics = new GroupCoordinatorMetrics();
        LogContext context = new LogContext();
        CoordinatorRuntime<GroupCoordinatorShard, CoordinatorRecord> runtime =
            new CoordinatorRuntime.Builder<GroupCoordinatorShard, CoordinatorRecord>()
                .withTime(time)
                .withTimer(timer)
                .withLogContext(context)
                .withEventProcessor(new Inline())
                .withPartitionWriter(new Writer())
                .withLoader(new Empty())
                .withCoordinatorShardBuilderSupplier(() ->
                    new GroupCoordinatorShard.Builder(config, groups)
                        .withAuthorizerPlugin(Optional.empty()))
                .withWriteTimeout(Duration.ofMillis(config.offsetCommitTimeoutMs()))
                .withCoordinatorRuntimeMetrics(new Unmeasured())
                .withCoordinatorMetrics(metrics)
                .withSerializer(new GroupCoordinatorRecordSerde())
                .withCompression(Compression.NONE)
                .withAppendLingerMs(config.appendLingerMs())
                .withExecutorService(Executors.newSingleThreadExecutor())
                .withCachedBufferMaxBytesSupplier(config::cachedBufferMaxBytes)
                .build();
        GroupCoordinatorService service = new GroupCoordinatorService(
            context, config, runtime, metrics, groups, null, timer, null, Optional.empty(), time);
        service.startup(() -> partitions);
        return service;
    }
}

package coterie.peers;

import java.io.File;
import java.io.OutputStream;
import java.io.PrintStream;
import java.util.ArrayList;
import java.util.List;
import java.util.OptionalInt;
import java.util.Map;
import java.util.TreeMap;
import kafka.common.OffsetAndMetadata;
import kafka.coordinator.group.GroupMetadata;
import kafka.coordinator.group.GroupMetadataManager;
import kafka.log.UnifiedLog;
import kafka.server.ReplicaManager;
import kafka.tools.DumpLogSegments;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.FileLogInputStream.FileChannelRecordBatch;
import org.apache.kafka.common.record.FileRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.group.OffsetConfig;
import org.apache.kafka.server.common.MetadataVersion;
import org.apache.kafka.storage.internals.log.FetchDataInfo;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;
import org.mockito.Mockito;
import scala.Option;
import scala.Some;
import scala.collection.Iterator;
import scala.runtime.BoxedUnit;

/** Kafka's loader of groups and offsets, and kafka-dump-log, over segment files. */
final class Logs {
    static final String TOPIC = "__consumer_offsets";

    /** A segment that a fake log reads: where each batch lies, and the next offset. */
    private record Segment(FileRecords records, TreeMap<Long, Integer> positions, long end) {
        static Segment open(File file) throws Exception {
            FileRecords records = FileRecords.open(file, false);
            TreeMap<Long, Integer> positions = new TreeMap<>();
            long end = 0;
            for (FileChannelRecordBatch batch : records.batches()) {
                positions.put(batch.baseOffset(), batch.position());
                end = batch.nextOffset();
            }
            return new Segment(records, positions, end);
        }

        /** As a segment reads: whole batches from the one that holds the offset, cut at length. */
        FetchDataInfo read(long offset, int length) throws Exception {
            Map.Entry<Long, Integer> at = positions.floorEntry(offset);
            int position = at == null ? 0 : at.getValue();
            return new FetchDataInfo(new LogOffsetMetadata(offset),
                records.slice(position, length));
        }
    }

    private final List<Segment> segments = new ArrayList<>();

    /** Each file is the only segment of its partition, numbered by its place in the list. */
    Logs(List<File> files) throws Exception {
        for (File file : files) {
            segments.add(Segment.open(file));
        }
    }

    static OffsetConfig config() {
        return new OffsetConfig(4096, 5 * 1024 * 1024, 7 * Groups.DAY_MS, 600_000L, 50,
            100 * 1024 * 1024, (short) 3, CompressionType.NONE, 5000, (short) -1);
    }

    private ReplicaManager replicas() {
        ReplicaManager replicas = Mockito.mock(
            ReplicaManager.class, Mockito.withSettings().stubOnly());
        for (int i = 0; i < segments.size(); i++) {
            Segment segment = segments.get(i);
            UnifiedLog log = Mockito.mock(UnifiedLog.class, Mockito.withSettings().stubOnly());
            Mockito.when(log.read(Mockito.anyLong(), Mockito.anyInt(), Mockito.any(),
                Mockito.anyBoolean())).thenAnswer(
                    call -> segment.read(call.getArgument(0), call.getArgument(1)));
            TopicPartition partition = new TopicPartition(TOPIC, i);
            Mockito.when(replicas.getLog(partition)).thenReturn(new Some<>(log));
            Mockito.when(replicas.getLogEndOffset(partition))
                .thenReturn(new Some<>(segment.end()));
        }
        return replicas;
    }

    Rounds.Result load() {
        GroupMetadataManager manager = new GroupMetadataManager(0,
            MetadataVersion.latestProduction(), config(), replicas(), Time.SYSTEM, new Metrics());
        manager.startup(() -> segments.size(), false);
        long began = Rounds.now();
        for (int i = 0; i < segments.size(); i++) {
            manager.loadGroupsAndOffsets(new TopicPartition(TOPIC, i), 0,
                group -> BoxedUnit.UNIT, 0L);
        }
        double seconds = (Rounds.now() - began) * 1e-9;
        long offsets = 0;
        long sum = 0;
        Iterator<GroupMetadata> groups = manager.currentGroups().iterator();
        while (groups.hasNext()) {
            Iterator<OffsetAndMetadata> values = groups.next().allOffsets().valuesIterator();
            while (values.hasNext()) {
                offsets++;
                sum += values.next().offset();
            }
        }
        return new Rounds.Result(seconds, "[" + offsets + ", " + sum + "]");
    }

    /** Stands where standard output was: counts the lines of records, which begin with a bar. */
    private static final class Counter extends OutputStream {
        private long records;
        private boolean fresh = true;

        @Override
        public void write(int b) {
            records += fresh && b == '|' ? 1 : 0;
            fresh = b == '\n';
        }

        @Override
        public void write(byte[] bytes, int from, int count) {
            for (int i = from; i < from + count; i++) {
                write(bytes[i]);
            }
        }
    }

    /** The answer: how many records it printed. */
    static Rounds.Result dump(List<File> files) {
        String[] arguments = {"--deep-iteration", "--offsets-decoder",
            "--files", String.join(",", files.stream().map(File::getPath).toList())};
        PrintStream out = System.out;
        Counter counter = new Counter();
        System.setOut(new PrintStream(counter, false));
        try {
            // The tool prints through scala.Console, which keeps the stream it began with.
            long began = Rounds.now();
            scala.Console$.MODULE$.withOut(System.out, () -> {
                DumpLogSegments.main(arguments);
                return null;
            });
            double seconds = (Rounds.now() - began) * 1e-9;
            return new Rounds.Result(seconds, Long.toString(counter.records));
        } finally {
            System.setOut(out);
        }
    }
}

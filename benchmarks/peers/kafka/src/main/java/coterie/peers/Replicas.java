package coterie.peers;

import java.util.concurrent.locks.Lock;
import kafka.server.ActionQueue;
import kafka.server.ReplicaManager;
import kafka.server.RequestLocal;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.RecordValidationStats;
import org.apache.kafka.common.requests.ProduceResponse.PartitionResponse;
import org.apache.kafka.storage.internals.log.AppendOrigin;
import org.apache.kafka.storage.internals.log.VerificationGuard;
import org.objenesis.ObjenesisStd;
import scala.Function1;
import scala.Option;
import scala.Some;
import scala.collection.Map;
import scala.collection.immutable.Map$;
import scala.runtime.BoxedUnit;

/** The log under Kafka's coordinator: an append comes back at once, without an error. */
class Replicas extends ReplicaManager {
    private static final byte MAGIC = 2;

    /** Never run: a broker's replica manager wants a broker. */
    private Replicas() {
        super(null, null, null, null, null, null, null, null, null, null, null, null, null, null,
            null, null, null, null, null, null, null, null);
    }

    static ReplicaManager create() {
        return new ObjenesisStd().newInstance(Replicas.class);
    }

    @Override
    public Option<Object> getMagic(TopicPartition partition) {
        return new Some<>(MAGIC);
    }

    @Override
    public void appendRecords(long timeoutMs, short acks, boolean internal, AppendOrigin origin,
            Map<TopicPartition, MemoryRecords> records,
            Function1<Map<TopicPartition, PartitionResponse>, BoxedUnit> back, Option<Lock> lock,
            Function1<Map<TopicPartition, RecordValidationStats>, BoxedUnit> stats,
            RequestLocal local, ActionQueue queue, Map<TopicPartition, VerificationGuard> guards) {
        back.apply(Map$.MODULE$.<TopicPartition, PartitionResponse>empty().updated(
            records.keysIterator().next(), new PartitionResponse(Errors.NONE, 0L, -1L, 0L)));
    }

    @Override
    public void tryCompleteActions() {
        // Nothing is delayed here.
    }
}

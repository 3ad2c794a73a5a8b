package main

import (
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var codecs = map[string]kgo.CompressionCodec{
	"none":   kgo.NoCompression(),
	"gzip":   kgo.GzipCompression(),
	"snappy": kgo.SnappyCompression(),
	"lz4":    kgo.Lz4Compression(),
	"zstd":   kgo.ZstdCompression(),
}

// read gives a partition's records from its begin to its end, as this isolation sees them.
func read(partition int32, isolation kgo.IsolationLevel) (found []*kgo.Record) {
	from := map[string]map[int32]kgo.Offset{topic: {partition: kgo.NewOffset().AtStart()}}
	reader := client(
		kgo.ConsumePartitions(from),
		kgo.FetchIsolationLevel(isolation),
		kgo.KeepControlRecords(),
	)
	defer reader.Close()
	ends := must(kadm.NewClient(reader).ListEndOffsets(ctx, topic))
	end, _ := ends.Lookup(topic, partition)
	last := int64(-1)
	for last < end.Offset-1 {
		fetches := reader.PollFetches(ctx)
		check(fetches.Err())
		fetches.EachRecord(func(each *kgo.Record) {
			last = each.Offset
			if !each.Attrs.IsControl() {
				found = append(found, each)
			}
		})
	}
	return found
}

func values(of []*kgo.Record) (told []string) {
	for _, each := range of {
		told = append(told, string(each.Value))
	}
	return told
}

func records(names []string) {
	for number, name := range names {
		partition := int32(number)
		producer := client(
			kgo.DefaultProduceTopic(topic),
			kgo.RecordPartitioner(kgo.ManualPartitioner()),
			kgo.ProducerBatchCompression(codecs[name]),
		)
		var batch []*kgo.Record
		for _, n := range []string{"0", "1", "2"} {
			batch = append(batch, &kgo.Record{
				Partition: partition,
				Key:       []byte("k" + n),
				Value:     []byte("v" + n),
				Headers:   []kgo.RecordHeader{{Key: "h", Value: []byte("h" + n)}},
			})
		}
		check(producer.ProduceSync(ctx, batch...).FirstErr())
		producer.Close()
		told := [][]string{}
		for _, each := range read(partition, kgo.ReadUncommitted()) {
			header := string(each.Headers[0].Value)
			told = append(told, []string{string(each.Key), string(each.Value), header})
		}
		tell(fact{"codec": name, "records": told})
	}
}

// offsetInTransaction does what GroupTransactSession does for offsets that it has polled.
func offsetInTransaction(producer *kgo.Client, offset int64) {
	id, epoch, err := producer.ProducerID(ctx)
	check(err)
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = group+"-id", id, epoch, group
	added := must(add.RequestWith(ctx, producer))
	checkCode(added.ErrorCode)
	commit := kmsg.NewPtrTxnOffsetCommitRequest()
	commit.TransactionalID, commit.ProducerID, commit.ProducerEpoch = group+"-id", id, epoch
	commit.Group = group
	of := kmsg.NewTxnOffsetCommitRequestTopic()
	of.Topic = topic
	described := must(kadm.NewClient(producer).ListTopics(ctx, topic))
	of.TopicID = described[topic].ID // in place of the name from version 6 on
	of.Partitions = append(of.Partitions, kmsg.NewTxnOffsetCommitRequestTopicPartition())
	of.Partitions[0].Offset = offset
	commit.Topics = append(commit.Topics, of)
	committed := must(commit.RequestWith(ctx, producer))
	checkCode(committed.Topics[0].Partitions[0].ErrorCode)
}

func transactions() {
	producer := client(
		kgo.TransactionalID(group+"-id"),
		kgo.DefaultProduceTopic(topic),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	for _, each := range []struct {
		values []string
		offset int64
		end    kgo.TransactionEndTry
	}{
		{[]string{"a", "b"}, 3, kgo.TryCommit},
		{[]string{"c", "d"}, 9, kgo.TryAbort},
		{[]string{"e"}, -1, kgo.TryCommit},
	} {
		check(producer.BeginTransaction())
		for _, value := range each.values {
			check(producer.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr())
		}
		if each.offset >= 0 {
			offsetInTransaction(producer, each.offset)
		}
		check(producer.EndTransaction(ctx, each.end))
	}
	producer.Close()
	tell(fact{"read_committed": values(read(0, kgo.ReadCommitted()))})
	tell(fact{"read_uncommitted": values(read(0, kgo.ReadUncommitted()))})
	reader := client()
	found := must(kadm.NewClient(reader).FetchOffsetsForTopics(ctx, group, topic))
	committed, _ := found.Lookup(topic, 0)
	tell(fact{"offset": committed.At})
	reader.Close()
}

package main

import (
	"github.com/IBM/sarama"
)

var codecs = map[string]sarama.CompressionCodec{
	"none":   sarama.CompressionNone,
	"gzip":   sarama.CompressionGZIP,
	"snappy": sarama.CompressionSnappy,
	"lz4":    sarama.CompressionLZ4,
	"zstd":   sarama.CompressionZSTD,
}

// read gives a partition's records from its begin until so many are there, as this isolation
// sees them.
func read(partition int32, isolation sarama.IsolationLevel, count int) (found []*sarama.ConsumerMessage) {
	config := settings()
	config.Consumer.IsolationLevel = isolation
	consumer := must(sarama.NewConsumer(bootstrap, config))
	reader := must(consumer.ConsumePartition(topic, partition, sarama.OffsetOldest))
	for len(found) < count {
		found = append(found, <-reader.Messages())
	}
	check(reader.Close())
	check(consumer.Close())
	return found
}

func values(of []*sarama.ConsumerMessage) (told []string) {
	for _, each := range of {
		told = append(told, string(each.Value))
	}
	return told
}

func records(names []string) {
	for number, name := range names {
		partition := int32(number)
		config := settings()
		config.Producer.Compression = codecs[name]
		config.Producer.Flush.Messages = 3
		producer := must(sarama.NewSyncProducer(bootstrap, config))
		var batch []*sarama.ProducerMessage
		for _, n := range []string{"0", "1", "2"} {
			batch = append(batch, &sarama.ProducerMessage{
				Topic:     topic,
				Partition: partition,
				Key:       sarama.StringEncoder("k" + n),
				Value:     sarama.StringEncoder("v" + n),
				Headers:   []sarama.RecordHeader{{Key: []byte("h"), Value: []byte("h" + n)}},
			})
		}
		check(producer.SendMessages(batch))
		check(producer.Close())
		told := [][]string{}
		for _, each := range read(partition, sarama.ReadUncommitted, len(batch)) {
			header := string(each.Headers[0].Value)
			told = append(told, []string{string(each.Key), string(each.Value), header})
		}
		tell(fact{"codec": name, "records": told})
	}
}

func transactions() {
	config := settings()
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = true
	config.Producer.Transaction.ID = group + "-id"
	producer := must(sarama.NewSyncProducer(bootstrap, config))
	for _, each := range []struct {
		values []string
		offset int64
		end    func() error
	}{
		{[]string{"a", "b"}, 3, producer.CommitTxn},
		{[]string{"c", "d"}, 9, producer.AbortTxn},
		{[]string{"e"}, -1, producer.CommitTxn},
	} {
		check(producer.BeginTxn())
		for _, value := range each.values {
			message := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)}
			_, _, err := producer.SendMessage(message)
			check(err)
		}
		if each.offset >= 0 {
			offset := &sarama.PartitionOffsetMetadata{Offset: each.offset, LeaderEpoch: -1}
			offsets := map[string][]*sarama.PartitionOffsetMetadata{topic: {offset}}
			check(producer.AddOffsetsToTxn(offsets, group))
		}
		check(each.end())
	}
	check(producer.Close())
	tell(fact{"read_committed": values(read(0, sarama.ReadCommitted, 3))})
	tell(fact{"read_uncommitted": values(read(0, sarama.ReadUncommitted, 5))})
	asks := must(sarama.NewClusterAdmin(bootstrap, settings()))
	found := must(asks.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0}}))
	tell(fact{"offset": found.GetBlock(topic, 0).Offset})
	check(asks.Close())
}

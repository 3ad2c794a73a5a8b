package main

import (
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/IBM/sarama"
)

const made = "made"

// errorOf makes nil of Kafka's number for no error, which sarama keeps as one.
func errorOf(code sarama.KError) error {
	if code == sarama.ErrNoError {
		return nil
	}
	return code
}

func refusal(err error) string {
	names := map[error]string{
		sarama.ErrTopicAlreadyExists: "TOPIC_ALREADY_EXISTS",
		sarama.ErrNonEmptyGroup:      "NON_EMPTY_GROUP",
	}
	for each, name := range names {
		if errors.Is(err, each) {
			return name
		}
	}
	check(err)
	return "NONE"
}

func admin() {
	asks := must(sarama.NewClusterAdmin(bootstrap, settings()))
	adminTopics(asks)
	m := newMember(made, sarama.NewBalanceStrategyRange(), "")
	settle(4, m)
	adminGroups(asks)
	m.close()
	offsets := map[int32]sarama.OffsetAndMetadata{
		0: {Offset: 11, LeaderEpoch: -1},
		1: {Offset: 12, LeaderEpoch: -1},
	}
	altered := must(asks.AlterConsumerGroupOffsets(
		group, map[string]map[int32]sarama.OffsetAndMetadata{made: offsets}, nil))
	for _, code := range altered.Errors[made] {
		check(errorOf(code))
	}
	tell(fact{"offsets": committed(asks)})
	check(asks.DeleteConsumerGroupOffset(group, made, 1))
	tell(fact{"left": committed(asks)})
	check(asks.DeleteConsumerGroup(group))
	tell(fact{"after": listed(asks)})
	check(asks.DeleteTopic(made))
	tell(fact{"kept": topics(asks)})
	check(asks.Close())
}

func adminTopics(asks sarama.ClusterAdmin) {
	minute, longer := "60000", "90000"
	detail := &sarama.TopicDetail{
		NumPartitions:     2,
		ReplicationFactor: 1,
		ConfigEntries:     map[string]*string{"retention.ms": &minute},
	}
	check(asks.CreateTopic(made, detail, false))
	tell(fact{"topics": topics(asks)})
	told := described(asks)
	tell(fact{"partitions": len(told), "replicas": len(told[0].Replicas)})
	tell(fact{"retention": retention(asks)})
	entry := sarama.IncrementalAlterConfigsEntry{
		Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &longer,
	}
	entries := map[string]sarama.IncrementalAlterConfigsEntry{"retention.ms": entry}
	check(asks.IncrementalAlterConfig(sarama.TopicResource, made, entries, false))
	tell(fact{"altered": retention(asks)})
	check(asks.CreatePartitions(made, 4, nil, false))
	tell(fact{"grown": len(described(asks))})
	tell(fact{"again": refusal(asks.CreateTopic(made, detail, false))})
}

func adminGroups(asks sarama.ClusterAdmin) {
	tell(fact{"groups": listed(asks)})
	told := must(asks.DescribeConsumerGroups([]string{group}))[0]
	check(errorOf(told.Err))
	assigned := []int32{}
	for _, each := range told.Members {
		assigned = append(assigned, must(each.GetMemberAssignment()).Topics[made]...)
	}
	slices.Sort(assigned)
	tell(fact{
		"state": told.State, "protocol": told.Protocol,
		"members": len(told.Members), "assigned": assigned,
	})
	tell(fact{"refused": refusal(asks.DeleteConsumerGroup(group))})
}

func topics(asks sarama.ClusterAdmin) []string {
	names := []string{}
	for name := range must(asks.ListTopics()) {
		if name[0] != '_' {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func described(asks sarama.ClusterAdmin) []*sarama.PartitionMetadata {
	told := must(asks.DescribeTopics([]string{made}))[0]
	check(errorOf(told.Err))
	return told.Partitions
}

func retention(asks sarama.ClusterAdmin) string {
	of := sarama.ConfigResource{
		Type: sarama.TopicResource, Name: made, ConfigNames: []string{"retention.ms"},
	}
	return must(asks.DescribeConfig(of))[0].Value
}

func listed(asks sarama.ClusterAdmin) []string {
	return append([]string{}, slices.Sorted(maps.Keys(must(asks.ListConsumerGroups())))...)
}

func committed(asks sarama.ClusterAdmin) map[string]int64 {
	told := map[string]int64{}
	found := must(asks.ListConsumerGroupOffsets(group, nil))
	for partition, block := range found.Blocks[made] {
		if block.Offset >= 0 {
			told[strconv.Itoa(int(partition))] = block.Offset
		}
	}
	return told
}

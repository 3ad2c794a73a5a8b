package main

import (
	"errors"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const made = "made"

func checkCode(code int16) {
	check(kerr.ErrorForCode(code))
}

// refusal is the name of Kafka's error.
func refusal(err error) string {
	var of *kerr.Error
	if errors.As(err, &of) {
		return of.Message
	}
	return "NONE"
}

func admin() {
	asks := kadm.NewClient(client())
	defer asks.Close()
	adminTopics(asks)
	m := newMember(made, kgo.RangeBalancer(), "")
	settle(4, m)
	adminGroups(asks)
	m.client.Close()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: made, Partition: 0, At: 11, LeaderEpoch: -1})
	offsets.Add(kadm.Offset{Topic: made, Partition: 1, At: 12, LeaderEpoch: -1})
	check(asks.CommitAllOffsets(ctx, group, offsets))
	tell(fact{"offsets": committed(asks)})
	second := kadm.TopicsSet{}
	second.Add(made, 1)
	deleted := must(asks.DeleteOffsets(ctx, group, second))
	check(deleted[made][1])
	tell(fact{"left": committed(asks)})
	must(asks.DeleteGroup(ctx, group))
	tell(fact{"after": listed(asks)})
	must(asks.DeleteTopic(ctx, made))
	tell(fact{"kept": listedTopics().Names()})
}

func adminTopics(asks *kadm.Client) {
	minute, longer := "60000", "90000"
	configs := map[string]*string{"retention.ms": &minute}
	must(asks.CreateTopic(ctx, 2, -1, configs, made))
	tell(fact{"topics": listedTopics().Names()})
	told := described()
	tell(fact{"partitions": len(told.Partitions), "replicas": told.Partitions.NumReplicas()})
	tell(fact{"retention": retention(asks)})
	altered := must(asks.AlterTopicConfigs(
		ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "retention.ms", Value: &longer}}, made))
	check(altered[0].Err)
	tell(fact{"altered": retention(asks)})
	grown := must(asks.UpdatePartitions(ctx, 4, made))
	check(grown[made].Err)
	tell(fact{"grown": len(described().Partitions)})
	_, err := asks.CreateTopic(ctx, 2, -1, nil, made)
	tell(fact{"again": refusal(err)})
}

func adminGroups(asks *kadm.Client) {
	tell(fact{"groups": listed(asks)})
	told := must(asks.DescribeGroups(ctx, group))[group]
	assigned := []int32{}
	for _, each := range told.Members {
		held, _ := each.Assigned.AsConsumer()
		for _, of := range held.Topics {
			assigned = append(assigned, of.Partitions...)
		}
	}
	slices.Sort(assigned)
	tell(fact{
		"state": told.State, "protocol": told.Protocol,
		"members": len(told.Members), "assigned": assigned,
	})
	deleted, err := asks.DeleteGroup(ctx, group)
	tell(fact{"refused": refusal(errors.Join(err, deleted.Err))})
}

// listedTopics asks by a client of its own: another one would answer by what it saw last.
func listedTopics(names ...string) kadm.TopicDetails {
	asks := kadm.NewClient(client())
	defer asks.Close()
	return must(asks.ListTopics(ctx, names...))
}

func described() kadm.TopicDetail {
	return listedTopics(made)[made]
}

func retention(asks *kadm.Client) string {
	found := must(asks.DescribeTopicConfigs(ctx, made))
	for _, each := range found[0].Configs {
		if each.Key == "retention.ms" {
			return each.MaybeValue()
		}
	}
	return ""
}

func listed(asks *kadm.Client) []string {
	names := must(asks.ListGroups(ctx)).Groups()
	return append([]string{}, names...)
}

func committed(asks *kadm.Client) map[string]int64 {
	told := map[string]int64{}
	must(asks.FetchOffsets(ctx, group)).Each(func(each kadm.OffsetResponse) {
		if each.Topic == made && each.At >= 0 {
			told[strconv.Itoa(int(each.Partition))] = each.At
		}
	})
	return told
}

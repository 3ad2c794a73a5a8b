package main

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Members of the consumer protocol (KIP-848).

// regex subscribes to an expression. This client resolves it itself and names the topics when it
// joins; one that is created later is named by the next member.
func regex() {
	for count := 1; count <= 2; count++ {
		var lock sync.Mutex
		var topics []string
		m := newConsumerMember("ord.*", "", kgo.ConsumeRegex(),
			kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, added map[string][]int32) {
				lock.Lock()
				defer lock.Unlock()
				for name := range added {
					topics = append(topics, name)
				}
				slices.Sort(topics)
			}))
		assigned := func() []string {
			lock.Lock()
			defer lock.Unlock()
			return slices.Compact(slices.Clone(topics))
		}
		await(func() bool { return len(assigned()) == count })
		tell(fact{"topics": assigned()})
		if count == 1 {
			must(kadm.NewClient(m.client).CreateTopic(ctx, 1, 1, nil, "orders-2"))
			tell(fact{"made": "orders-2"})
		}
		m.client.Close()
	}
}

func migrate() {
	var members []*member
	var protocols []string
	step := int64(0)
	for _, protocol := range []string{"classic", "classic", "consumer", "consumer", "classic", "classic"} {
		if len(members) == 2 {
			members[0].client.Close()
			members, protocols = members[1:], protocols[1:]
		}
		protocols = append(protocols, protocol)
		if protocol == "consumer" {
			members = append(members, newConsumerMember(topic, ""))
		} else {
			members = append(members, newClassicMember(topic, kgo.RangeBalancer(), ""))
		}
		if len(members) < 2 {
			continue
		}
		settle(partitions, members...)
		step++
		owner := members[0]
		if slices.Contains(members[1].holds(), 0) {
			owner = members[1]
		}
		check(owner.client.CommitRecords(ctx, &kgo.Record{Topic: topic, Partition: 0, Offset: step - 1, LeaderEpoch: -1}))
		found := must(kadm.NewClient(members[1].client).FetchOffsetsForTopics(ctx, group, topic))
		var sizes []int
		for _, each := range members {
			sizes = append(sizes, len(each.holds()))
		}
		slices.Sort(sizes)
		at, _ := found.Lookup(topic, 0)
		tell(fact{"protocols": protocols, "sizes": sizes, "committed": at.At})
	}
	for _, each := range members {
		each.client.Close()
	}
}

func fenced() {
	m := newConsumerMember(topic, "")
	settle(partitions, m)
	tell(fact{"assigned": m.holds()})
	await(func() bool { return m.losses() > 0 })
	tell(fact{"lost": m.losses()})
	settle(partitions, m)
	tell(fact{"assigned": m.holds()})
	m.client.Close()
}

// lateRevocation keeps what another member is to get, until the coordinator takes it away.
func lateRevocation() {
	limit := kgo.RebalanceTimeout(50 * time.Second)
	one := newConsumerMember(topic, "", limit)
	settle(partitions, one)
	tell(fact{"assigned": one.holds()})
	one.whenRevoked = func(count int) {
		tell(fact{"revoking": count})
		select {}
	}
	two := newConsumerMember(topic, "", limit)
	settle(partitions, two)
	tell(fact{"assigned": two.holds()})
}

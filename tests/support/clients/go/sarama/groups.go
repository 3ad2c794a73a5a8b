package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/IBM/sarama"
)

const partitions = 3

// A member of the group that consumes until it is closed: each claim it runs is held.
type member struct {
	group   sarama.ConsumerGroup
	ended   chan struct{}
	lock    sync.Mutex
	held    []int32
	revoked int
}

func newMember(of string, strategy sarama.BalanceStrategy, instance string) *member {
	config := settings()
	config.Consumer.Group.Rebalance.GroupStrategies = []sarama.BalanceStrategy{strategy}
	config.Consumer.Group.InstanceId = instance
	m := &member{
		group: must(sarama.NewConsumerGroup(bootstrap, group, config)),
		ended: make(chan struct{}),
	}
	go func() {
		defer close(m.ended)
		for {
			err := m.group.Consume(context.Background(), []string{of}, m)
			if errors.Is(err, sarama.ErrClosedConsumerGroup) {
				return
			}
			check(err)
		}
	}()
	return m
}

func (m *member) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (m *member) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (m *member) ConsumeClaim(_ sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	m.lock.Lock()
	m.held = append(m.held, claim.Partition())
	slices.Sort(m.held)
	m.lock.Unlock()
	for range claim.Messages() {
	}
	m.lock.Lock()
	defer m.lock.Unlock()
	m.revoked++
	m.held = slices.DeleteFunc(m.held, func(each int32) bool { return each == claim.Partition() })
	return nil
}

func (m *member) holds() []int32 {
	m.lock.Lock()
	defer m.lock.Unlock()
	return slices.Clone(m.held)
}

func (m *member) close() {
	check(m.group.Close())
	<-m.ended
}

// settle waits until the members have divided the partitions among them, some for each.
func settle(count int, members ...*member) {
	await(func() bool {
		var all []int32
		for _, each := range members {
			held := each.holds()
			if len(held) == 0 {
				return false
			}
			all = append(all, held...)
		}
		slices.Sort(all)
		return len(all) == count && len(slices.Compact(all)) == count
	})
}

func tellSizes(members ...*member) {
	settle(partitions, members...)
	var sizes []int
	for _, each := range members {
		sizes = append(sizes, len(each.holds()))
	}
	slices.Sort(sizes)
	tell(fact{"sizes": sizes})
}

func join() {
	m := newMember(topic, sarama.NewBalanceStrategyRange(), "")
	settle(partitions, m)
	tell(fact{"assigned": m.holds()})
	m.close()
}

func stay() {
	m := newMember(topic, sarama.NewBalanceStrategyRange(), "")
	settle(partitions, m)
	tell(fact{"assigned": m.holds()})
	select {}
}

func rebalance() {
	var members []*member
	for range 3 {
		members = append(members, newMember(topic, sarama.NewBalanceStrategyRange(), ""))
		tellSizes(members...)
	}
	members[0].close()
	tellSizes(members[1:]...)
	members[1].close()
	members[2].close()
}

func cooperative() {
	var members []*member
	for range 2 {
		strategy := sarama.NewBalanceStrategyCooperativeSticky()
		members = append(members, newMember(topic, strategy, ""))
		tellSizes(members...)
	}
	tell(fact{"revoked": members[0].revoked})
	members[0].close()
	members[1].close()
}

func restart() {
	one := newMember(topic, sarama.NewBalanceStrategyRange(), "one")
	settle(partitions, one)
	two := newMember(topic, sarama.NewBalanceStrategyRange(), "two")
	settle(partitions, one, two)
	tell(fact{"one": one.holds(), "two": two.holds()})
	two.close() // a member with an instance id does not leave
	two = newMember(topic, sarama.NewBalanceStrategyRange(), "two")
	settle(partitions, one, two)
	tell(fact{"one": one.holds(), "two": two.holds()})
	one.close()
	two.close()
}

func commit() {
	client := must(sarama.NewClient(bootstrap, settings()))
	manager := must(sarama.NewOffsetManagerFromClient(group, client))
	five := must(manager.ManagePartition(topic, 0))
	seven := must(manager.ManagePartition(topic, 1))
	five.MarkOffset(5, "five")
	seven.MarkOffset(7, "")
	manager.Commit()
	five.AsyncClose() // the manager waits for both
	seven.AsyncClose()
	check(manager.Close())
	check(client.Close())
	asks := must(sarama.NewClusterAdmin(bootstrap, settings()))
	found := must(asks.ListConsumerGroupOffsets(group, map[string][]int32{topic: {0, 1, 2}}))
	told := map[string][]any{}
	for partition, block := range found.Blocks[topic] {
		check(errorOf(block.Err))
		name := strconv.Itoa(int(partition))
		told[name] = nil
		if block.Offset >= 0 {
			told[name] = []any{block.Offset, block.Metadata}
		}
	}
	tell(fact{"committed": told})
	check(asks.Close())
}

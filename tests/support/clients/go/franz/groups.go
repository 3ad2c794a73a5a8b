package main

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const partitions = 3

// A member of the group that polls until it is closed.
type member struct {
	client  *kgo.Client
	lock    sync.Mutex
	held    []int32
	revoked int
	lost    int
	// Called with the number of partitions that are to be revoked.
	whenRevoked func(int)
}

// newMember makes a member of the protocol that the environment variable GROUP_PROTOCOL names.
func newMember(of string, balancer kgo.GroupBalancer, instance string) *member {
	if ofConsumerProtocol {
		return newConsumerMember(of, instance)
	}
	return newClassicMember(of, balancer, instance)
}

func newConsumerMember(of string, instance string, more ...kgo.Opt) *member {
	return startMember(of, instance, append(more, kgo.Balancers(kgo.StickyBalancer()), kgo.ServerSideBalancer())...)
}

func newClassicMember(of string, balancer kgo.GroupBalancer, instance string) *member {
	return startMember(of, instance, kgo.Balancers(balancer))
}

func startMember(of string, instance string, more ...kgo.Opt) *member {
	m := &member{}
	options := []kgo.Opt{
		kgo.ConsumerGroup(group),
		kgo.ConsumeTopics(of),
		kgo.SessionTimeout(45 * time.Second),
		kgo.HeartbeatInterval(100 * time.Millisecond),
		kgo.DisableAutoCommit(),
		kgo.OnPartitionsAssigned(func(_ context.Context, _ *kgo.Client, added map[string][]int32) {
			m.change(added[of], true)
		}),
		kgo.OnPartitionsRevoked(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			m.change(lost[of], false)
			if m.whenRevoked != nil && len(lost[of]) > 0 {
				m.whenRevoked(len(lost[of]))
			}
		}),
		kgo.OnPartitionsLost(func(_ context.Context, _ *kgo.Client, lost map[string][]int32) {
			m.lose(lost[of])
		}),
	}
	options = append(options, more...)
	if instance != "" {
		options = append(options, kgo.InstanceID(instance))
	}
	m.client = client(options...)
	go func() {
		for !m.client.PollFetches(ctx).IsClientClosed() {
		}
	}()
	return m
}

func (m *member) change(by []int32, added bool) {
	m.lock.Lock()
	defer m.lock.Unlock()
	if added {
		m.held = append(m.held, by...)
	} else {
		m.revoked += len(by)
		m.held = slices.DeleteFunc(m.held, func(each int32) bool { return slices.Contains(by, each) })
	}
	slices.Sort(m.held)
}

func (m *member) lose(those []int32) {
	m.change(those, false)
	m.lock.Lock()
	defer m.lock.Unlock()
	m.lost += len(those)
}

func (m *member) losses() int {
	m.lock.Lock()
	defer m.lock.Unlock()
	return m.lost
}

func (m *member) holds() []int32 {
	m.lock.Lock()
	defer m.lock.Unlock()
	return slices.Clone(m.held)
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
	m := newMember(topic, kgo.RangeBalancer(), "")
	settle(partitions, m)
	tell(fact{"assigned": m.holds()})
	m.client.Close()
}

func stay() {
	m := newMember(topic, kgo.RangeBalancer(), "")
	settle(partitions, m)
	tell(fact{"assigned": m.holds()})
	select {}
}

func rebalance() {
	var members []*member
	for range 3 {
		members = append(members, newMember(topic, kgo.RangeBalancer(), ""))
		tellSizes(members...)
	}
	members[0].client.Close()
	tellSizes(members[1:]...)
	members[1].client.Close()
	members[2].client.Close()
}

func cooperative() {
	var members []*member
	for range 2 {
		members = append(members, newMember(topic, kgo.CooperativeStickyBalancer(), ""))
		tellSizes(members...)
	}
	tell(fact{"revoked": members[0].revoked})
	members[0].client.Close()
	members[1].client.Close()
}

func restart() {
	one := newMember(topic, kgo.RangeBalancer(), "one")
	settle(partitions, one)
	two := newMember(topic, kgo.RangeBalancer(), "two")
	settle(partitions, one, two)
	tell(fact{"one": one.holds(), "two": two.holds()})
	two.client.Close() // a member with an instance id does not leave
	two = newMember(topic, kgo.RangeBalancer(), "two")
	settle(partitions, one, two)
	tell(fact{"one": one.holds(), "two": two.holds()})
	one.client.Close()
	two.client.Close()
}

func commit() {
	one := client()
	offsets := kadm.Offsets{}
	offsets.Add(kadm.Offset{Topic: topic, Partition: 0, At: 5, LeaderEpoch: -1, Metadata: "five"})
	offsets.Add(kadm.Offset{Topic: topic, Partition: 1, At: 7, LeaderEpoch: -1})
	check(kadm.NewClient(one).CommitAllOffsets(ctx, group, offsets))
	one.Close()
	another := client()
	found := must(kadm.NewClient(another).FetchOffsetsForTopics(ctx, group, topic))
	told := map[string][]any{}
	found.Each(func(each kadm.OffsetResponse) {
		name := strconv.Itoa(int(each.Partition))
		told[name] = nil
		if each.At >= 0 {
			told[name] = []any{each.At, each.Metadata}
		}
	})
	tell(fact{"committed": told})
	another.Close()
}

// sarama: BOOTSTRAP SCENARIO GROUP TOPIC [ARGS], see tests/clients/scenarios.py.
package main

import (
	"encoding/json"
	"log"
	"os"
	"time"

	"github.com/IBM/sarama"
)

type fact map[string]any

var (
	bootstrap    []string
	group, topic string
)

func main() {
	bootstrap, group, topic = os.Args[1:2], os.Args[3], os.Args[4]
	sarama.Logger = log.New(os.Stderr, "", log.Lmicroseconds)
	map[string]func(){
		"join":         join,
		"stay":         stay,
		"rebalance":    rebalance,
		"cooperative":  cooperative,
		"static":       restart,
		"commit":       commit,
		"transactions": transactions,
		"records":      func() { records(os.Args[5:]) },
		"admin":        admin,
	}[os.Args[2]]()
}

func settings() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.V3_9_1_0
	config.Metadata.Retry.Backoff = 20 * time.Millisecond
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.MaxWaitTime = 20 * time.Millisecond // a consumer that closes waits for it
	config.Consumer.Retry.Backoff = 20 * time.Millisecond
	config.Consumer.Group.Session.Timeout = 45 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 100 * time.Millisecond
	config.Consumer.Group.Rebalance.Retry.Backoff = 20 * time.Millisecond
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Retry.Backoff = 20 * time.Millisecond
	config.Producer.Transaction.Retry.Backoff = 20 * time.Millisecond
	config.Producer.Partitioner = sarama.NewManualPartitioner
	return config
}

func tell(told fact) {
	check(json.NewEncoder(os.Stdout).Encode(told))
}

func await(condition func() bool) {
	for !condition() {
		time.Sleep(5 * time.Millisecond)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}

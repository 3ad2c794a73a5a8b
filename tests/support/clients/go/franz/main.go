// franz-go: BOOTSTRAP SCENARIO GROUP TOPIC [ARGS], see tests/clients/scenarios.py.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

type fact map[string]any

var (
	ctx                     = context.Background()
	bootstrap, group, topic string
	ofConsumerProtocol      = os.Getenv("GROUP_PROTOCOL") == "consumer"
)

func main() {
	bootstrap, group, topic = os.Args[1], os.Args[3], os.Args[4]
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

		"regex":           regex,
		"migrate":         migrate,
		"fenced":          fenced,
		"late_revocation": lateRevocation,
	}[os.Args[2]]()
}

func client(options ...kgo.Opt) *kgo.Client {
	common := []kgo.Opt{
		kgo.SeedBrokers(bootstrap),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }),
		kgo.MetadataMinAge(20 * time.Millisecond),
	}
	return must(kgo.NewClient(append(common, options...)...))
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
		fmt.Fprintln(os.Stderr, err)
		panic(err)
	}
}

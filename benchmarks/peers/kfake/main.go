// kfake, franz-go's fake of a cluster, as a process of its own: one broker on PORT of 127.0.0.1
// (0 chooses one), with TOPIC:PARTITIONS. It prints `listening HOST:PORT` and runs until it is
// killed.
package main

import (
	"fmt"
	"log"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("usage: kfake PORT [TOPIC:PARTITIONS]...")
	}
	options := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.Ports(number(os.Args[1])),
		kfake.GroupMinSessionTimeout(time.Millisecond),
	}
	for _, given := range os.Args[2:] {
		topic, partitions, _ := strings.Cut(given, ":")
		options = append(options, kfake.SeedTopics(int32(number(partitions)), topic))
	}
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("listening", cluster.ListenAddrs()[0])
	select {}
}

func number(text string) int {
	value, err := strconv.Atoi(text)
	if err != nil {
		log.Fatal(err)
	}
	return value
}

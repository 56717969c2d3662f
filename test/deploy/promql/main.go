// Answers PromQL queries over series that are described in the notation of Prometheus' own rule tests: a document with
// `series` and `queries` comes in, one list of results for each query goes out. Series have a sample each minute, and
// the queries are asked at the minute that `at` names.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/util/teststorage"
)

type document struct {
	Series  []string `json:"series"`
	Queries []string `json:"queries"`
	At      int64    `json:"at"`
}

type result struct {
	Labels map[string]string `json:"labels"`
	Value  float64           `json:"value"`
}

func main() {
	if err := answer(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func answer() error {
	var asked document
	if err := json.NewDecoder(os.Stdin).Decode(&asked); err != nil {
		return err
	}
	storage, err := teststorage.NewWithError()
	if err != nil {
		return err
	}
	defer storage.Close()
	appender := storage.Appender(context.Background())
	reader := parser.NewParser(parser.Options{})
	for _, line := range asked.Series {
		metric, values, err := reader.ParseSeriesDesc(line)
		if err != nil {
			return fmt.Errorf("series %q: %w", line, err)
		}
		for minute, value := range values {
			if value.Omitted {
				continue
			}
			if _, err := appender.Append(0, metric, milliseconds(int64(minute)), value.Value); err != nil {
				return err
			}
		}
	}
	if err := appender.Commit(); err != nil {
		return err
	}
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1_000_000, Timeout: time.Minute})
	answers := [][]result{}
	for _, text := range asked.Queries {
		query, err := engine.NewInstantQuery(context.Background(), storage, nil, text, time.UnixMilli(milliseconds(asked.At)))
		if err != nil {
			return fmt.Errorf("query %q: %w", text, err)
		}
		vector, err := query.Exec(context.Background()).Vector()
		if err != nil {
			return fmt.Errorf("query %q: %w", text, err)
		}
		found := []result{}
		for _, sample := range vector {
			found = append(found, result{Labels: sample.Metric.Map(), Value: sample.F})
		}
		answers = append(answers, found)
	}
	return json.NewEncoder(os.Stdout).Encode(answers)
}

func milliseconds(minute int64) int64 {
	return minute * time.Minute.Milliseconds()
}

package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"time"

	"tidemark/client"
)

// service answers as the service of the README does.
func service() *httptest.Server {
	const row = `{"key":"23","row":{"userId":23,"totalRevenue":267.64,"sales":1},"positions":{"3":1042},"complete":true}`
	say := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			fmt.Fprint(w, body)
		}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /v1/aggregates/23", say(200, row))
	mux.Handle("GET /v1/aggregates/25", say(404, `{"type":"not_found","detail":"there is no row with the key \"25\""}`))
	mux.Handle("GET /v1/aggregates/23/watch", say(200, "event: row\ndata: "+row+"\n\n"))
	mux.Handle("GET /v1/aggregates", say(200, `{"rows":[`+row+`],"complete":true}`))
	mux.Handle("POST /v1/aggregates:batchGet", say(200, `{"rows":[`+row+`,null],"complete":true}`))
	return httptest.NewServer(mux)
}

func ExampleClient_Get() {
	server := service()
	defer server.Close()
	c, err := client.New([]string{server.URL}, client.Options{Token: "secret"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	row, err := c.Get(context.Background(), client.Key{"23"}, client.Read{})
	if err != nil {
		log.Fatal(err)
	}
	var user struct {
		TotalRevenue client.Number `json:"totalRevenue"`
	}
	if err := row.Decode(&user); err != nil {
		log.Fatal(err)
	}
	fmt.Println(user.TotalRevenue, row.Positions)

	_, err = c.Get(context.Background(), client.Key{"25"}, client.Read{})
	fmt.Println(errors.Is(err, client.ErrNotFound))
	// Output:
	// 267.64 map[3:1042]
	// true
}

// What was written to partition 3 before offset 1042 is in the answer.
func ExampleClient_Get_ownWrite() {
	server := service()
	defer server.Close()
	c, err := client.New([]string{server.URL}, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	row, err := c.Get(context.Background(), client.Key{"23"}, client.Read{
		MinOffset: client.Positions{3: 1042}, Timeout: 2 * time.Second,
	})
	fmt.Println(row.Found(), err)
	// Output: true <nil>
}

func ExampleClient_Batch() {
	server := service()
	defer server.Close()
	c, err := client.New([]string{server.URL}, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	page, err := c.Batch(context.Background(), []client.Key{{"23"}, {"25"}}, client.Read{})
	if err != nil {
		log.Fatal(err)
	}
	for _, row := range page.Rows {
		fmt.Println(row != nil)
	}
	// Output:
	// true
	// false
}

func ExampleClient_List() {
	server := service()
	defer server.Close()
	c, err := client.New([]string{server.URL}, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	for row, err := range c.List(context.Background(), client.Listing{Prefix: "2"}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(row.Key)
	}
	// Output: [23]
}

func ExampleClient_Top() {
	server := service()
	defer server.Close()
	c, err := client.New([]string{server.URL}, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	page, err := c.Top(context.Background(), "-totalRevenue", 10, client.Read{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(page.Rows[0].Key)
	// Output: [23]
}

func ExampleClient_Watch() {
	server := service()
	defer server.Close()
	c, err := client.New([]string{server.URL}, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	for row, err := range c.Watch(context.Background(), client.Key{"23"}, client.Read{}) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(string(row.Results))
		break
	}
	// Output: {"userId":23,"totalRevenue":267.64,"sales":1}
}

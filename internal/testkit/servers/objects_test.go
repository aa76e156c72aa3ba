//go:build integration && stores

package servers

import (
	"net/http"
	"testing"
)

// Each store makes a bucket, once its proxy lets it be reached again.
func TestObjectStoresMakeBuckets(t *testing.T) {
	for _, scheme := range ObjectStores {
		t.Run(scheme, func(t *testing.T) {
			o := NewObjects(t, scheme, ObjectOptions{})
			if err := o.Proxy.Close(); err != nil {
				t.Fatal(err)
			}
			if err := o.NewBucket("first"); err == nil {
				t.Fatal("a bucket was made through a closed proxy")
			}
			if err := o.Proxy.Mend(); err != nil {
				t.Fatal(err)
			}
			if err := o.NewBucket("first"); err != nil {
				t.Fatal(err)
			}
			if err := o.Proxy.Add(Toxic{Type: "limit_data", Stream: "downstream", Attributes: map[string]int{"bytes": 1}}); err != nil {
				t.Fatal(err)
			}
			if err := o.NewBucket("second"); err == nil {
				t.Error("an answer came through that was cut off")
			}
		})
	}
	if _, err := StartObjects(t.TempDir(), "ftp", ObjectOptions{}); err == nil {
		t.Error("a store was started that there is not")
	}
	http.DefaultClient.CloseIdleConnections()
}

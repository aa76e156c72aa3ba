package servers

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// ObjectStores are the schemes of the object stores that there are.
var ObjectStores = []string{"s3", "gs", "azblob"}

// Objects is a server with the interface of a cloud's object store, in memory,
// behind a Proxy: moto for S3, fake-gcs-server for Google, azurite for Azure.
type Objects struct {
	Scheme string // s3, gs or azblob
	Proxy  *Proxy // every URL leads through it

	process *process
}

// ObjectOptions are what differs from a store that takes any login.
type ObjectOptions struct {
	// Strict lets S3 look at logins, of which it then knows none. Only the
	// first requests, as many as this says, are let through.
	Strict int
}

// NewObjects starts a store for the test and stops it at its end.
func NewObjects(t testing.TB, scheme string, opts ObjectOptions) *Objects {
	t.Helper()
	o, err := StartObjects(t.TempDir(), scheme, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(o.Kill)
	return o
}

// StartObjects starts the store of a scheme; logs go below dir.
func StartObjects(dir, scheme string, opts ObjectOptions) (*Objects, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	for try := 1; ; try++ {
		o, err := startObjects(dir, scheme, opts)
		if err == nil {
			return o, nil
		}
		if try == 3 || !errors.Is(err, errEnded) || !strings.Contains(strings.ToLower(err.Error()), "in use") {
			return nil, fmt.Errorf("start the object store for %s://: %w", scheme, err)
		}
	}
}

func startObjects(dir, scheme string, opts ObjectOptions) (*Objects, error) {
	ports, err := FreePorts(1)
	if err != nil {
		return nil, err
	}
	port := strconv.Itoa(ports[0])
	address := net.JoinHostPort("127.0.0.1", port)
	o := &Objects{Scheme: scheme}
	if o.Proxy, err = startProxy(dir, address); err != nil {
		return nil, err
	}
	program, env, args, err := o.command(dir, port, opts)
	if err == nil {
		o.process, err = start(filepath.Join(dir, scheme+".log"), env, program, args...)
	}
	if err != nil {
		o.Proxy.process.kill()
		return nil, err
	}
	err = o.process.await(func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			conn.Close()
		}
		return err
	})
	if err != nil {
		o.Kill()
		return nil, err
	}
	return o, nil
}

// command is how the server is started.
func (o *Objects) command(dir, port string, opts ObjectOptions) (program string, env, args []string, err error) {
	var folder string
	switch o.Scheme {
	case "s3":
		if folder, err = moto.folder(); err != nil {
			return "", nil, nil, err
		}
		env = []string{"PYTHONPATH=" + folder}
		if opts.Strict > 0 {
			env = append(env, "INITIAL_NO_AUTH_ACTION_COUNT="+strconv.Itoa(opts.Strict))
		}
		program, err = moto.look("python3")
		return program, env, []string{"-m", "moto.server", "-H", "127.0.0.1", "-p", port}, err
	case "gs":
		if folder, err = fakeGCS.folder(); err != nil {
			return "", nil, nil, err
		}
		// It reads objects by a path that it knows by the host asked for.
		return filepath.Join(folder, "fake-gcs-server"), nil, []string{
			"-backend", "memory", "-scheme", "http", "-host", "127.0.0.1", "-port", port, "-public-host", o.Proxy.Address,
		}, nil
	case "azblob":
		if folder, err = azurite.folder(); err != nil {
			return "", nil, nil, err
		}
		program, err = azurite.look("node")
		return program, nil, []string{
			filepath.Join(folder, "node_modules", "azurite", "dist", "src", "blob", "main.js"),
			"--skipApiVersionCheck", "--loose", "--silent", "--disableTelemetry", "--inMemoryPersistence",
			"--blobHost", "127.0.0.1", "--blobPort", port,
		}, err
	}
	return "", nil, nil, fmt.Errorf("there is no store for %q, only for %s", o.Scheme, strings.Join(ObjectStores, ", "))
}

// Kill ends the store, and what is in it.
func (o *Objects) Kill() {
	o.process.kill()
	o.Proxy.process.kill()
}

// The login of azurite, which is public.
const (
	azureAccount = "devstoreaccount1"
	azureKey     = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)

// URL is that of a bucket, for snapshots.url.
func (o *Objects) URL(bucket string) string { return o.URLAt(o.Proxy.Address, bucket) }

// URLAt is URL for a server at another address.
func (o *Objects) URLAt(address, bucket string) string {
	switch o.Scheme {
	case "s3":
		return "s3://" + bucket + "?endpoint=http://" + address + "&region=us-east-1&use_path_style=true"
	case "azblob":
		return "azblob://" + bucket + "?localemu=true&protocol=http&domain=" + address
	default:
		return o.Scheme + "://" + bucket // Environ says where
	}
}

// Environ is the login, and what else clients find in the environment.
func (o *Objects) Environ() map[string]string { return o.EnvironAt(o.Proxy.Address) }

// EnvironAt is Environ for a server at another address.
func (o *Objects) EnvironAt(address string) map[string]string {
	switch o.Scheme {
	case "s3":
		return map[string]string{"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any", "AWS_EC2_METADATA_DISABLED": "true"}
	case "azblob":
		return map[string]string{"AZURE_STORAGE_ACCOUNT": azureAccount, "AZURE_STORAGE_KEY": azureKey}
	default:
		return map[string]string{"STORAGE_EMULATOR_HOST": address}
	}
}

// NewBucket makes a bucket or container.
func (o *Objects) NewBucket(name string) error {
	base := "http://" + o.Proxy.Address
	var req *http.Request
	var err error
	switch o.Scheme {
	case "s3":
		req, err = http.NewRequest(http.MethodPut, base+"/"+name, nil)
	case "gs":
		req, err = http.NewRequest(http.MethodPost, base+"/storage/v1/b?project=test", strings.NewReader(`{"name":"`+name+`"}`))
	default:
		req, err = http.NewRequest(http.MethodPut, base+"/"+azureAccount+"/"+name+"?restype=container", nil)
		if err == nil {
			err = signAzure(req, name)
		}
	}
	if err == nil {
		err = exchange(req, nil)
	}
	if err != nil {
		return fmt.Errorf("make bucket %s: %w", name, err)
	}
	return nil
}

// signAzure signs the request for a new container: its headers and path, as
// the interface's "Authorize with Shared Key" says.
func signAzure(req *http.Request, container string) error {
	date := time.Now().UTC().Format(http.TimeFormat)
	req.Header.Set("x-ms-date", date)
	req.Header.Set("x-ms-version", "2021-12-02")
	key, err := base64.StdEncoding.DecodeString(azureKey)
	if err != nil {
		return err
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "PUT%sx-ms-date:%s\nx-ms-version:2021-12-02\n/%s/%s/%s\nrestype:container",
		strings.Repeat("\n", 12), date, azureAccount, azureAccount, container)
	req.Header.Set("Authorization", "SharedKey "+azureAccount+":"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	return nil
}

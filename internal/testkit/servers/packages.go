package servers

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// packaged is a server that a registry other than Maven Central publishes, of
// one version, which lies in a folder of the cache.
type packaged struct {
	name, version string
	tool          string // the program that installs it
	debian        string // packages of Debian that have what it wants
	install       func(p packaged, tool, dir string) *exec.Cmd
}

// The stores of objects and the proxy. They have dependencies of their own,
// which therefore are not those of this module.
var (
	moto      = packaged{"moto", "5.2.5", "python3", "python3 and python3-pip", fromPyPI}
	azurite   = packaged{"azurite", "3.37.0", "npm", "nodejs and npm", fromNPM}
	fakeGCS   = packaged{"fake-gcs-server", "v1.56.1", "go", "golang", fromGo("github.com/fsouza/fake-gcs-server")}
	toxiproxy = packaged{"toxiproxy", "v2.5.0", "go", "golang", fromGo("github.com/Shopify/toxiproxy/v2/cmd/server")}
)

func fromPyPI(p packaged, pip, dir string) *exec.Cmd {
	return exec.Command(pip, "-m", "pip", "install", "--quiet", "--target", dir, p.name+"[s3,server]=="+p.version)
}

func fromNPM(p packaged, npm, dir string) *exec.Cmd {
	return exec.Command(npm, "install", "--silent", "--no-audit", "--no-fund", "--prefix", dir, p.name+"@"+p.version)
}

func fromGo(path string) func(packaged, string, string) *exec.Cmd {
	return func(p packaged, golang, dir string) *exec.Cmd {
		cmd := exec.Command(golang, "install", path+"@"+p.version)
		cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
		return cmd
	}
}

// folder is where it lies; the first call installs it. Several processes may
// call it at once.
func (p packaged) folder() (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, p.name+"-"+p.version)
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	tool, err := p.look(p.tool)
	if err != nil {
		return "", err
	}
	err = lay(dir, func(work string) error {
		out, err := p.install(p, tool, work).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%w\n%s", err, tail(strings.TrimSpace(string(out))))
		}
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("install %s %s with %s: %w", p.name, p.version, p.tool, err)
	}
	return dir, nil
}

// look finds a program that it wants.
func (p packaged) look(program string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("%s is not installed: the object store %s wants it (on Debian: %s, which `make setup-stores` installs): %w",
			program, p.name, p.debian, errors.Unwrap(err))
	}
	return path, nil
}

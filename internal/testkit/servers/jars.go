package servers

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

//go:embed *-pom.xml *.java
var recipes embed.FS

// copier is the Maven goal that lays the jars of a pom into a folder. It is
// pinned since Maven's own default changes with its version.
const copier = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"

// classPath returns the class path of the server called name: the jars of
// name-pom.xml, and, where main is not "", the compiled main.java before them.
// What is not in the cache yet is fetched and compiled. Several processes may
// call it at once.
func classPath(name, main string) (string, error) {
	pom, err := recipes.ReadFile(name + "-pom.xml")
	if err != nil {
		return "", fmt.Errorf("read the recipe of %s: %w", name, err)
	}
	var source []byte
	if main != "" {
		if source, err = recipes.ReadFile(main + ".java"); err != nil {
			return "", fmt.Errorf("read the main class of %s: %w", name, err)
		}
	}
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(pom, source...))
	dir := filepath.Join(cache, name+"-"+hex.EncodeToString(sum[:6]))
	path := filepath.Join(dir, "jars", "*")
	if main != "" {
		path = filepath.Join(dir, "classes") + string(os.PathListSeparator) + path
	}

	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return path, nil
	}
	err = lay(dir, func(work string) error { return fetchJars(work, name, main, pom, source) })
	if err != nil {
		return "", fmt.Errorf("lay the jars of %s: %w", name, err)
	}
	return path, nil
}

// lay makes dir whole or not at all: fill works beside it, and it is renamed
// last.
func lay(dir string, fill func(work string) error) (err error) {
	work, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+"-*.part")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := fill(work); err != nil {
		return err
	}
	return os.Rename(work, dir)
}

// fetchJars fills a folder with the jars of the server and its main class.
func fetchJars(work, name, main string, pom, source []byte) error {
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), pom, 0o644); err != nil {
		return err
	}
	if err := run("mvn", "-q", "-B", "-f", filepath.Join(work, "pom.xml"), copier,
		"-DincludeScope=runtime", "-DoutputDirectory="+filepath.Join(work, "jars")); err != nil {
		return err
	}
	if main != "" {
		file := filepath.Join(work, main+".java")
		if err := os.WriteFile(file, source, 0o644); err != nil {
			return err
		}
		if err := run("javac", "-nowarn", "-XDsuppressNotes", "-cp", filepath.Join(work, "jars", "*"), "-d", filepath.Join(work, "classes"), file); err != nil {
			return err
		}
	}
	return nil
}

func cacheDir() (string, error) {
	dir := os.Getenv("TIDEMARK_CACHE")
	if dir == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return "", fmt.Errorf("find a cache folder for jars (set TIDEMARK_CACHE): %w", err)
		}
		dir = filepath.Join(user, "tidemark")
	}
	dir = filepath.Join(dir, "servers")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache folder for jars: %w", err)
	}
	return filepath.Abs(dir)
}

// lock holds the file until unlock is called; the process's end frees it too.
func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("lock the jars: %w", err)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		f.Close()
		return nil, fmt.Errorf("lock the jars at %s: %w", path, err)
	}
	return func() { f.Close() }, nil
}

// tool finds a program of the JDK or Maven.
func tool(name string) (string, error) {
	if home := os.Getenv("JAVA_HOME"); home != "" && name != "mvn" {
		if path, err := exec.LookPath(filepath.Join(home, "bin", name)); err == nil {
			return path, nil
		}
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%s is not installed: the real servers want a JDK 17 and Maven (on Debian: openjdk-17-jdk-headless and maven, which `make setup` installs): %w", name, err)
	}
	return path, nil
}

// run runs a tool to its end; its output goes into the error.
func run(name string, args ...string) error {
	path, err := tool(name)
	if err != nil {
		return err
	}
	out, err := exec.Command(path, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, tail(strings.TrimSpace(string(out))))
	}
	return nil
}

// tail is the end of a long text.
func tail(text string) string {
	const most = 4000
	if len(text) <= most {
		return text
	}
	return "…" + text[len(text)-most:]
}

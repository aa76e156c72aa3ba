//go:build integration

package integration

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// startChromium starts a browser, which ends with the test. It fails where
// there is none: internal/testkit/servers/setup installs it.
func startChromium(t *testing.T) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.UserDataDir(t.TempDir()), chromedp.WSURLReadTimeout(time.Minute),
		chromedp.Flag("disable-dev-shm-usage", true))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, stop := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...) // it ends after the test's last look
	t.Cleanup(stop)
	browser, end := chromedp.NewContext(allocator, chromedp.WithErrorf(func(string, ...any) {})) // events of a Chromium that is newer than the library
	t.Cleanup(end)
	if err := chromedp.Do(browser); err != nil {
		t.Fatalf("start Chromium (`make setup` installs it): %v", err)
	}
	return browser
}

// tab is a tab with storage of its own, and what it has complained of and
// asked for.
type tab struct {
	t      *testing.T
	ctx    context.Context
	excuse []string // what a complaint may be about
	shots  int

	mu         sync.Mutex
	complaints []string
	requests   []string
}

// newTab opens a tab. At the end of the test it has written no error to the
// console but those about what excuse names, and asked no host but that of its
// first page.
func newTab(t *testing.T, browser context.Context, excuse ...string) *tab {
	t.Helper()
	ctx, closeTab := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	b := &tab{t: t, ctx: ctx, excuse: excuse}
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			b.mu.Lock()
			b.requests = append(b.requests, e.Request.URL)
			b.mu.Unlock()
		case *page.EventJavascriptDialogOpening:
			b.complain("a dialog: " + e.Message)
		}
	})
	if err == nil {
		_, err = chromedp.Call(ctx, network.Enable, network.EnableParams{})
	}
	if err != nil {
		t.Fatal(err)
	}
	console := chromedp.Console(ctx)
	var listening sync.WaitGroup
	listening.Go(func() {
		for m, err := range console {
			if err != nil {
				return
			}
			if m.IsException() || m.Type == "error" || m.Type == "warning" {
				b.complain(fmt.Sprintf("%s: %s (%s)", m.Type, m.Text, m.URL))
			}
		}
	})
	t.Cleanup(func() {
		b.shoot()
		closeTab()
		listening.Wait()
		b.check()
	})
	return b
}

func (b *tab) complain(what string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, e := range b.excuse {
		if strings.Contains(what, e) {
			return
		}
	}
	b.complaints = append(b.complaints, what)
}

func (b *tab) check() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.complaints {
		b.t.Errorf("the console has %s", c)
	}
	home := ""
	for _, r := range b.requests {
		u, err := url.Parse(r)
		if err != nil {
			b.t.Fatal(err)
		}
		switch {
		case u.Scheme == "data":
		case home == "":
			home = u.Host
		case u.Host != home:
			b.t.Errorf("the page of %s asks %s", home, r)
		}
	}
}

// shoot keeps a picture of the whole page in the folder PAGE_SHOTS, where set.
// The end of a test takes one too.
func (b *tab) shoot() {
	dir := os.Getenv("PAGE_SHOTS")
	if dir == "" {
		return
	}
	png, err := chromedp.Run(b.ctx, chromedp.FullScreenshot(100))
	if err == nil {
		b.shots++
		name := fmt.Sprintf("%s-%d.png", strings.NewReplacer("/", "-", ",", "").Replace(b.t.Name()), b.shots)
		err = os.WriteFile(filepath.Join(dir, name), png, 0o644)
	}
	if err != nil {
		b.t.Error(err)
	}
}

// do runs steps in bounded time.
func (b *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *tab) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate(url))
}

// eval is the value of an expression in the page.
func eval[T any](b *tab, expression string) T {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// until waits until an expression, which may fail before, is true.
func (b *tab) until(expression string) {
	b.t.Helper()
	eventually(b.t, time.Minute, expression, func() error {
		ctx, cancel := context.WithTimeout(b.ctx, time.Minute)
		defer cancel()
		yes, err := chromedp.Run(ctx, chromedp.Evaluate[bool](expression))
		if err == nil && !yes {
			text, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
			err = fmt.Errorf("the page says\n%s", text)
		}
		return err
	})
}

// says waits until what a selector finds is seen and has a text in it.
func (b *tab) says(selector, text string) {
	b.t.Helper()
	b.until(fmt.Sprintf("(e => e.checkVisibility() && e.innerText.includes(%q))(document.querySelector(%q))", text, selector))
}

// press presses keys one after the other, as on a keyboard.
func (b *tab) press(keys ...string) {
	b.t.Helper()
	for _, k := range keys {
		b.do(chromedp.KeyEvent(k))
	}
}

// tabTo presses the tab key until what a selector finds has the focus. On the
// way whatever has it is seen, and can be told from what has not.
func (b *tab) tabTo(selector string) {
	b.t.Helper()
	var way []string
	for range 200 {
		b.press(kb.Tab)
		at := eval[struct {
			Name, Outline string
			There, Seen   bool
		}](b, fmt.Sprintf(`(() => {
			const e = document.activeElement, r = e.getBoundingClientRect(), s = getComputedStyle(e);
			return {Name: e.tagName + "#" + e.id, Outline: s.outlineStyle, There: e.matches(%q),
				Seen: e === document.body || r.width > 1 && r.height > 1 && r.right > 0 && r.left < innerWidth};
		})()`, selector))
		if way = append(way, at.Name); !at.Seen || at.Outline == "none" && at.Name != "BODY#" {
			b.t.Fatalf("%s has the focus and does not show it", at.Name)
		}
		if at.There {
			return
		}
	}
	b.t.Fatalf("the tab key does not lead to %s, but to %v", selector, way)
}

// look lays down what the system prefers, and the size of the window.
func (b *tab) look(width int64, features ...string) {
	b.t.Helper()
	media := emulation.SetEmulatedMediaParams{}
	for i := 0; i < len(features); i += 2 {
		media.Features = append(media.Features, &emulation.MediaFeature{Name: features[i], Value: features[i+1]})
	}
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, media)
	if err == nil {
		_, err = chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride,
			emulation.SetDeviceMetricsOverrideParams{Width: width, Height: 800, DeviceScaleFactor: 1, Mobile: width < 500})
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

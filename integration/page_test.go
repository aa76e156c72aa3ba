//go:build integration

package integration

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const hostileKey = `<img src=x onerror="alert('x')">&amp;`

// pageQuery is a definition with a bit of everything.
func pageQuery(topic string) string {
	return fmt.Sprintf("SELECT user, sum(paid) AS paid, collect_set(tags) AS tags, max(note) AS note, count(*) AS n FROM `%s` GROUP BY user", topic)
}

func paid(user, amount string) string {
	return fmt.Sprintf(`{"user":%q,"paid":%s,"tags":["<b>",7,"7"],"note":"fine"}`, user, amount)
}

// value is the text of a column of the row that is looked up.
func value(column string) string {
	return fmt.Sprintf(`[...document.querySelectorAll("#row-table tr")].find(r => r.cells[0].textContent === %q).cells[1].innerText`, column)
}

// is compares an expression with a text.
func is(expression, text string) string { return fmt.Sprintf("%s === %q", expression, text) }

// The page in a real browser, on the real binary.
func TestPage(t *testing.T) {
	topic := newTopic(t, 4)
	for i := range 30 {
		produce(t, topic, int32(i%4), paid(fmt.Sprintf("user-%02d", i), fmt.Sprintf("%d.5", i)))
	}
	produce(t, topic, 0, paid("big", "9007199254740993.10"), paid("big", "0.0000000000000000001"))
	produce(t, topic, 1, paid(hostileKey, "1"), paid("..", "2"), `{"user":null}`, `not JSON`)
	s := serve(t, settings{query: pageQuery(topic)})
	s.caughtUp(topic)
	browser := startChromium(t)

	t.Run("look-up and live", func(t *testing.T) {
		b := newTab(t, browser)
		b.look(1280)
		b.open(s.url + "/")
		b.do(chromedp.SendKeys(chromedp.ID("key-0"), "big"), chromedp.Click(chromedp.CSS("#lookup-form button")))
		b.until(is(value("paid"), "9007199254740993.1000000000000000001")) // no double has these digits
		b.until(is(value("n"), "2"))
		if got := eval[[]string](b, `[...document.querySelectorAll("#row-table li")].map(e => e.textContent)`); !slices.Equal(got, []string{"7", `"7"`, `"<b>"`}) {
			t.Errorf("the set is shown as %q", got)
		}
		b.says("#row-positions", "partition 0 up to offset")
		b.says("#row-announce", "9007199254740993.1000000000000000001") // for who listens
		produce(t, topic, 0, paid("big", "1e20"))
		b.until(is(value("paid"), "100009007199254740993.1000000000000000001"))
		b.says("#row-state", "live")

		b.open(s.url + "/#key=nobody-yet")
		b.says("#row-absent", "no such key yet")
		produce(t, topic, 2, paid("nobody-yet", "12.50"))
		b.until(is(value("paid"), "12.5"))
		b.open(s.url + "/#key=" + url.PathEscape("..")) // which a browser takes out of a path
		b.until(is(value("paid"), "2"))
	})

	t.Run("top", func(t *testing.T) {
		b := newTab(t, browser)
		b.open(s.url + "/")
		firsts := `[...document.querySelectorAll("#top-table tbody tr")].slice(0, 3).map(r => r.cells[0].textContent).join()`
		b.until(is(firsts, "big,user-29,user-28"))
		b.do(chromedp.SetValue(chromedp.ID("top-direction"), ""))
		b.until(`document.querySelector("#top-direction").dispatchEvent(new Event("change")), ` + is(firsts, "user-00,"+hostileKey+",user-01"))
		produce(t, topic, 3, paid("user-01", "-7"))
		b.until(is(firsts, "user-01,user-00,"+hostileKey))
	})

	t.Run("paging", func(t *testing.T) {
		b := newTab(t, browser)
		b.open(s.url + "/")
		keys := `[...document.querySelectorAll("#list-table tbody tr")].map(r => r.cells[0].textContent)`
		b.until(`document.querySelectorAll("#top-table tbody tr").length === 10`) // nothing moves from here on
		b.do(chromedp.SendKeys(chromedp.ID("list-prefix"), "user-"), chromedp.Click(chromedp.CSS("#list-form button")))
		b.until(keys + `.every(k => k.startsWith("user-"))`)
		var got []string
		for page := range 3 {
			b.says("#list-note", fmt.Sprintf("Rows %d to %d", 10*page+1, 10*page+10))
			got = append(got, eval[[]string](b, keys)...)
			b.do(chromedp.Click(chromedp.ID("list-next"))) // on the last page it does nothing
		}
		if len(got) != 30 || !slices.IsSorted(got) || len(slices.Compact(got)) != 30 {
			t.Errorf("the pages have %q", got)
		}
		b.says("#list-note", "the last")
		b.do(chromedp.Click(chromedp.ID("list-previous")))
		b.says("#list-note", "Rows 11 to 20")
		b.do(chromedp.SendKeys(chromedp.ID("list-prefix"), "none"), chromedp.Click(chromedp.CSS("#list-form button")))
		b.says("#list-note", "No key begins with")
	})

	t.Run("keys are text", func(t *testing.T) {
		b := newTab(t, browser, "TrustedHTML") // which this test tries
		b.open(s.url + "/")
		link := fmt.Sprintf(`[...document.querySelectorAll("#list-table a")].find(a => a.textContent === %q)`, hostileKey)
		b.until(link + " !== undefined")
		b.until(link + ".click(), true")
		b.until(is(`document.querySelector("#row-name").textContent`, hostileKey))
		b.until(is(value("user"), hostileKey))
		b.until(is(value("paid"), "1"))
		if n := eval[int](b, `document.querySelectorAll("main img, main b").length`); n != 0 {
			t.Errorf("%d elements were made of data", n)
		}
		// The policy would have held it back too: the page may not make elements of text.
		if !eval[bool](b, `(() => { try { document.createElement("p").innerHTML = "<i>"; return false } catch { return true } })()`) {
			t.Error("text may become markup")
		}
	})

	t.Run("bad records and definition", func(t *testing.T) {
		b := newTab(t, browser)
		b.look(1280)
		b.open(s.url + "/")
		b.says("#bad-table", "not_json")
		b.says("#samples-table", "null_field")
		b.says("#samples-table", topic+" 1, offset")
		b.says("#columns-table", "collect_set(tags)")
		b.says("#sql", "GROUP BY user")
		b.says("#members-table", "this one")
		b.until(`document.querySelectorAll("#partitions-table tbody tr").length === 4`)
		b.says("#partitions-table", "live")
		b.until(`document.querySelector("#rate .line").getAttribute("d")?.includes("L")`) // two samples make a line
	})

	t.Run("keyboard alone", func(t *testing.T) {
		b := newTab(t, browser)
		b.open(s.url + "/")
		b.until(`document.querySelectorAll("#list-table tbody tr").length === 10`)
		b.tabTo(".skip")
		b.press(kb.Enter)
		b.tabTo("#key-0")
		b.press(strings.Split("user-07", "")...)
		b.press(kb.Enter)
		b.until(is(value("paid"), "7.5"))
		b.tabTo("#top-table a")
		b.press(kb.Enter)
		b.until(is(value("user"), "big"))
		if got := eval[string](b, "document.activeElement.id"); got != "row-name" {
			t.Errorf("after a key was chosen the focus is at %q", got)
		}
		b.tabTo("#list-next")
		b.press(kb.Enter)
		b.says("#list-note", "Rows 11 to 20")
		if got := eval[string](b, "document.activeElement.id"); got != "list-next" {
			t.Errorf("after a page was turned the focus is at %q", got)
		}
		nameless := eval[[]string](b, `[...document.querySelectorAll("input, select, button, a, table, section, svg[role]")].filter(e => e.checkVisibility()
			&& !(e.labels?.length || e.textContent.trim() && e.matches("a, button") || e.getAttribute("aria-label") || e.getAttribute("aria-labelledby"))).map(e => e.outerHTML)`)
		if len(nameless) > 0 {
			t.Errorf("without a name are %q", nameless)
		}
	})

	t.Run("phone", func(t *testing.T) {
		b := newTab(t, browser)
		b.look(360)
		b.open(s.url + "/#key=" + url.QueryEscape("big"))
		b.until(value("paid") + `.endsWith("9007199254740993.1000000000000000001")`)
		b.until(`document.querySelectorAll("#list-table tbody tr").length === 10 && document.querySelectorAll("#top-table tbody tr").length === 10`)
		wide := eval[[]string](b, `[...document.querySelectorAll("body *")].filter(e => e.checkVisibility() && !e.matches(".skip")
			&& (e.getBoundingClientRect().right > 360.5 || e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX !== "visible" && !e.matches("thead, .unseen")))
			.map(e => e.tagName + "#" + e.id + " " + e.className)`)
		if width := eval[int](b, "document.scrollingElement.scrollWidth"); width > 360 || len(wide) > 0 {
			t.Errorf("the page is %d wide; too wide are %q", width, wide)
		}
	})

	t.Run("dark, light and still", func(t *testing.T) {
		b := newTab(t, browser)
		ground := "getComputedStyle(document.body).backgroundColor"
		b.look(1280, "prefers-color-scheme", "light")
		b.open(s.url + "/")
		light := eval[string](b, ground)
		b.look(1280, "prefers-color-scheme", "dark", "prefers-reduced-motion", "reduce")
		dark := eval[string](b, ground)
		if light == dark {
			t.Errorf("the ground is %s, light and dark", light)
		}
		b.until(`document.querySelector("#theme").value = "light", document.querySelector("#theme").dispatchEvent(new Event("change"))`)
		b.do(chromedp.Reload())
		if got := eval[string](b, ground); got != light {
			t.Errorf("the ground is %s, though light was chosen", got)
		}
		b.until(`document.querySelector("#theme").value = "dark", document.querySelector("#theme").dispatchEvent(new Event("change"))`)
		b.look(1280, "prefers-color-scheme", "light", "prefers-reduced-motion", "reduce")
		b.do(chromedp.Reload())
		if got := eval[string](b, ground); got != dark {
			t.Errorf("the ground is %s, though dark was chosen", got)
		}
		b.until(`document.querySelectorAll("#list-table tbody tr").length === 10 && document.querySelectorAll("#top-table tbody tr").length === 10`)
		if name := eval[string](b, `(() => { const e = document.createElement("p"); e.className = "changed"; document.body.append(e); return getComputedStyle(e).animationName })()`); name != "none" {
			t.Errorf("%s moves, though nothing shall", name)
		}
	})

	t.Run("below a path of a proxy", func(t *testing.T) {
		to, err := url.Parse(s.url)
		if err != nil {
			t.Fatal(err)
		}
		proxy := httptest.NewServer(http.StripPrefix("/tide/mark", httputil.NewSingleHostReverseProxy(to)))
		t.Cleanup(proxy.Close)
		t.Cleanup(proxy.CloseClientConnections) // a watch goes on for as long as its tab
		b := newTab(t, browser)
		b.open(proxy.URL + "/tide/mark/#key=user-03")
		b.until(is(value("paid"), "3.5"))
		b.says("#figure-live", "4 of 4")
	})
}

// A service with tokens asks for one, and keeps it out of the address.
func TestPageAsksForAToken(t *testing.T) {
	topic := newTopic(t, 1)
	produce(t, topic, 0, paid("a", "1.5"))
	s := serve(t, settings{query: pageQuery(topic), tokens: "[open-sesame]"})
	b := newTab(t, startChromium(t), "401")
	b.look(1280)
	b.open(s.url + "/#key=a")
	b.says("#login", "A token is needed")
	give := func(token string) {
		b.until(`document.activeElement.id === "token" || (document.querySelector("#token").focus(), false)`)
		b.press(strings.Split(token, "")...)
		b.press(kb.Enter)
	}
	give("wrong")
	b.says("#login-problem", "A valid token is needed")
	b.shoot()
	give("open-sesame")
	b.until(is(value("paid"), "1.5"))
	produce(t, topic, 0, paid("a", "2"))
	b.until(is(value("paid"), "3.5"))
	b.do(chromedp.Reload())
	b.until(is(value("paid"), "3.5"))
	if at := eval[string](b, "location.href + JSON.stringify(localStorage) + document.cookie"); strings.Contains(at, "sesame") {
		t.Errorf("the token is in %s", at)
	}
	for _, r := range b.requests {
		if strings.Contains(r, "sesame") {
			t.Errorf("the token is in the request for %s", r)
		}
	}
	b.do(chromedp.Click(chromedp.ID("forget")))
	b.says("#login", "A token is needed")
}

// A member that is gone is shown as such, with what was known, and the page
// goes on by itself when it is back.
func TestPageOfAMemberThatIsGone(t *testing.T) {
	topic := newTopic(t, 1)
	produce(t, topic, 0, paid("a", "1.5"))
	s := serve(t, settings{query: pageQuery(topic)})
	b := newTab(t, startChromium(t), "net::ERR", "503")
	b.open(s.url + "/#key=a")
	b.until(is(value("paid"), "1.5"))
	s.kill()
	b.says("#trouble", "This member does not answer")
	b.says("#row-state", "trying again")
	b.until(is(value("paid"), "1.5")) // as it was
	s.start()
	s.ready()
	produce(t, topic, 0, paid("a", "2"))
	b.until(is(value("paid"), "3.5"))
	b.until(`document.querySelector("#trouble").hidden`)
	b.says("#row-state", "live")
}

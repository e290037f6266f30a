package browsertest

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// sizes and schemes are how a state is looked at.
var (
	sizes   = map[string]int64{"wide": 1280, "narrow": 360}
	schemes = []string{"light", "dark"}
)

// click presses the first visible button or link with that name.
func (b *tab) click(name string) {
	b.t.Helper()
	b.do("click "+name, chromedp.Click(
		fmt.Sprintf(`//*[self::button or self::a or self::summary][normalize-space(.)=%q]`, name), chromedp.BySearch, chromedp.NodeVisible))
}

// looks looks at a state of a page in every size and scheme: a screenshot each, no sideways scrolling, words that can be
// read, and a name for every control.
func (b *tab) looks(state string) {
	b.t.Helper()
	for _, scheme := range schemes {
		b.do("scheme", emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}))
		for _, size := range []string{"narrow", "wide"} {
			width := sizes[size]
			b.do("size", emulation.SetDeviceMetricsOverride(width, 740, 1, size == "narrow"))
			b.picture(state + " " + size + " " + scheme)
			if got := eval[int64](b, "document.documentElement.scrollWidth"); got > width {
				b.t.Errorf("%s, %s: the page is %d wide in a window of %d; too wide: %v", state, scheme, got, width, eval[[]string](b, tooWide))
			}
		}
		for _, bad := range eval[[]string](b, contrast) {
			b.t.Errorf("%s, %s: hard to read: %s", state, scheme, bad)
		}
	}
	b.do("as it was", emulation.ClearDeviceMetricsOverride(), emulation.SetEmulatedMedia())
	b.named(state)
}

// tooWide are the elements that reach beyond the window.
const tooWide = `[...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 120))`

// contrast are texts of less contrast than 4.5 to their background, as WCAG 2 counts it.
const contrast = `(() => {
	const parse = c => { const m = c.match(/[\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
	const light = c => { const [r, g, b] = c.map(v => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
	const back = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c[3] > 0.5) return c.slice(0, 3); } return [255, 255, 255]; };
	const bad = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	for (let n; n = walker.nextNode();) {
		const e = n.parentElement, style = getComputedStyle(e);
		if (!n.data.trim() || !e.getClientRects().length || style.visibility === 'hidden' || e.closest(':disabled')) continue;
		const a = light(parse(style.color).slice(0, 3)), b = light(back(e));
		const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		if (ratio < 4.5) bad.push(n.data.trim().slice(0, 60) + ' (' + ratio.toFixed(2) + ')');
	}
	return bad;
})()`

// controls are the roles of what a person does something with.
var controls = []string{
	"button", "link", "textbox", "searchbox", "combobox", "listbox", "checkbox", "radio", "slider", "spinbutton", "menuitem", "tab", "switch",
	"log", "region", "img", "image", "Audio", "Video", "navigation",
}

// axNode is a node of the accessibility tree, as far as it is looked at: the library's own type knows no newer words.
type axNode struct {
	Ignored bool    `json:"ignored"`
	Role    axValue `json:"role"`
	Name    axValue `json:"name"`
}

type axValue struct {
	Value any `json:"value"`
}

// named looks whether everything that a person uses has a name that a screen reader can say.
func (b *tab) named(state string) {
	b.t.Helper()
	var tree struct {
		Nodes []axNode `json:"nodes"`
	}
	b.do("accessibility tree", chromedp.ActionFunc(func(ctx context.Context) error {
		return cdp.Execute(ctx, "Accessibility.getFullAXTree", nil, &tree)
	}))
	found := 0
	for _, n := range tree.Nodes {
		role, name := fmt.Sprint(n.Role.Value), fmt.Sprint(n.Name.Value)
		if n.Ignored || !slices.Contains(controls, role) {
			continue
		}
		found++
		if n.Name.Value == nil || strings.TrimSpace(name) == "" {
			b.t.Errorf("%s: a %s without a name", state, role)
		}
	}
	if found == 0 {
		b.t.Errorf("%s: the accessibility tree has no control", state)
	}
}

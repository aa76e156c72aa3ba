package bootstrap

import "errors"

// How many documents are asked for at once, where it is not configured. A page
// of a point in time costs the server a search over again, so few large ones are
// several times faster than many small ones; but how large a document is shows
// only once some have come, and others may be larger.
const (
	pageBytes     = 4 << 20 // of a page, about
	longPage      = 8       // times as long a page is not read: it is asked for in parts
	maxPage       = 5000    // documents
	cautiousPage  = 500     // documents, while their size is not known
	unlimitedPage = 1000    // documents, while the index's limit is not known
)

// mostAtOnce is the largest page that the indices are known to give.
func (r *reading) mostAtOnce() int {
	if r.found.window == 0 {
		return unlimitedPage
	}
	return min(r.found.window, maxPage)
}

func (r *reading) firstPage() int {
	if r.o.PageSize > 0 {
		return r.o.PageSize
	}
	return min(cautiousPage, r.mostAtOnce())
}

// nextPage is the size of the page after p, which has documents.
func (r *reading) nextPage(p *page) int {
	if r.o.PageSize > 0 {
		return r.o.PageSize
	}
	each := max(1, len(p.body)/len(p.hits))
	return max(1, min(int(r.pageBytes)/each, r.mostAtOnce()))
}

// longest is how many bytes a page of so many documents may have: one that is
// longer can be asked for in parts, where its size is not configured.
func (r *reading) longest(documents int) int64 {
	if r.o.PageSize > 0 || documents == 1 {
		return maxAnswer
	}
	return longPage * r.pageBytes
}

// fewer is for how many documents to ask after a page of so many has failed:
// whatever the server says, it may have been too much at once. The next page
// goes by the documents again. now says that the page was only too long.
func (r *reading) fewer(documents int, err error) (n int, now bool) {
	var again *passing
	switch {
	case r.o.PageSize > 0 || documents == 1:
	case errors.Is(err, errLongAnswer):
		return max(1, documents/longPage), true
	case errors.As(err, &again):
		return documents / 2, false
	}
	return documents, false
}

// scrollPage is the size of all pages of a scroll, which is fixed as it opens.
func (r *reading) scrollPage() int {
	if r.o.PageSize > 0 {
		return r.o.PageSize
	}
	return min(unlimitedPage, r.mostAtOnce())
}

package bootstrap

// How many documents are asked for at once, where it is not configured. A page
// of a point in time costs the server a search over again, so few large ones are
// several times faster than many small ones; but how large a document is shows
// only once some have come.
const (
	pageBytes     = 4 << 20 // of a page, about
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
	return max(1, min(pageBytes/each, r.mostAtOnce()))
}

// scrollPage is the size of all pages of a scroll, which is fixed as it opens.
func (r *reading) scrollPage() int {
	if r.o.PageSize > 0 {
		return r.o.PageSize
	}
	return min(unlimitedPage, r.mostAtOnce())
}

package deploy

import (
	"regexp"
	"slices"
	"testing"
)

// dashboard is of a Grafana dashboard what is looked at here.
type dashboard struct {
	Title, UID string
	Panels     []panel
	Templating struct {
		List []struct {
			Name, Type string
			Datasource *source
		}
	}
	Annotations struct {
		List []struct{ Name, Expr string }
	}
}

type source struct{ Type, UID string }

type panel struct {
	ID                       int
	Type, Title, Description string
	GridPos                  struct{ H, W, X, Y int }
	Datasource               *source
	FieldConfig              struct {
		Defaults struct{ Unit string }
	}
	Targets []struct {
		RefID, Expr, LegendFormat, Format string
		Datasource                        *source
	}
}

// Panel types that Grafana brings along.
var builtIn = []string{"row", "timeseries", "stat", "table", "gauge", "bargauge", "heatmap", "text"}

func TestDashboard(t *testing.T) {
	var d dashboard
	decode(t, dashboardFile, &d)
	if d.Title == "" || d.UID == "" {
		t.Error("the dashboard has no title or no uid")
	}
	variable := source{"prometheus", "${datasource}"}
	var variables []string
	for _, v := range d.Templating.List {
		variables = append(variables, v.Name)
		if v.Type == "query" && (v.Datasource == nil || *v.Datasource != variable) {
			t.Errorf("the variable %s asks another data source than the chosen one", v.Name)
		}
	}
	for _, want := range []string{"datasource", "job", "instance", "topic"} {
		if !slices.Contains(variables, want) {
			t.Errorf("there is no variable %s", want)
		}
	}
	ids := map[int]bool{}
	taken := map[[2]int]string{}
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("%s: the id %d is there twice", p.Title, p.ID)
		}
		ids[p.ID] = true
		if !slices.Contains(builtIn, p.Type) {
			t.Errorf("%s: the panel type %s is not Grafana's own", p.Title, p.Type)
		}
		g := p.GridPos
		if g.X < 0 || g.W < 1 || g.X+g.W > 24 || g.H < 1 {
			t.Errorf("%s lies outside of the grid: %+v", p.Title, g)
		}
		for x := g.X; x < g.X+g.W; x++ {
			for y := g.Y; y < g.Y+g.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Errorf("%s lies over %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || p.FieldConfig.Defaults.Unit == "" {
			t.Errorf("%s wants a title, a description and a unit", p.Title)
		}
		if p.Datasource == nil || *p.Datasource != variable || len(p.Targets) == 0 {
			t.Errorf("%s wants targets and the chosen data source", p.Title)
		}
		for _, target := range p.Targets {
			if target.Datasource == nil || *target.Datasource != variable {
				t.Errorf("%s %s asks another data source than the chosen one", p.Title, target.RefID)
			}
			if target.LegendFormat == "" && p.Type == "timeseries" {
				t.Errorf("%s %s has no legend", p.Title, target.RefID)
			}
			for _, v := range regexp.MustCompile(`\$(\w+)`).FindAllStringSubmatch(target.Expr, -1) {
				if !slices.Contains(variables, v[1]) && v[1][0] != '_' {
					t.Errorf("%s %s: there is no variable %s", p.Title, target.RefID, v[1])
				}
			}
		}
	}
}

package model_test

import (
	"os"
	"strings"
	"testing"

	"memra/model"
)

func TestTheDocumentationListsEveryFamily(t *testing.T) {
	page, err := os.ReadFile("../docs/models.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range model.Families() {
		if !strings.Contains(string(page), "`"+name+"`") {
			t.Errorf("docs/models.md lacks %s", name)
		}
	}
}

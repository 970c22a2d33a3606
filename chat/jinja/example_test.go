package jinja_test

import (
	"fmt"
	"time"

	"memra/chat/jinja"
)

func ExampleTemplate_Render() {
	t, err := jinja.Parse("{% for m in messages %}\n<{{ m.role }}>{{ m.content|trim }}\n{% endfor %}\n")
	if err != nil {
		panic(err)
	}
	messages, err := jinja.FromJSON([]byte(`[{"role": "user", "content": " Hi "}, {"role": "assistant", "content": "Hello!"}]`))
	if err != nil {
		panic(err)
	}
	text, err := t.Render(map[string]jinja.Value{"messages": messages}, time.Now())
	if err != nil {
		panic(err)
	}
	fmt.Print(text)
	// Output:
	// <user>Hi
	// <assistant>Hello!
}

func ExampleError() {
	_, err := jinja.Parse("Hello\n{% fore x in y %}")
	fmt.Println(err)
	// Output: line 2: unknown tag 'fore'
}

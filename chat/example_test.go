package chat_test

import (
	"errors"
	"fmt"

	"memra/chat"
)

const chatml = `{% for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}`

func ExampleTemplate_Render() {
	t, err := chat.Parse(chatml)
	if err != nil {
		panic(err)
	}
	prompt, err := t.Render(chat.Input{
		Messages:            []chat.Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "Hi"}},
		AddGenerationPrompt: true,
	})
	if err != nil {
		panic(err)
	}
	fmt.Println(prompt)
	// Output:
	// <|im_start|>system
	// Be brief.<|im_end|>
	// <|im_start|>user
	// Hi<|im_end|>
	// <|im_start|>assistant
}

func ExampleTemplateError() {
	t, err := chat.Parse("{% if messages[0].role != 'user' %}\n{{ raise_exception('the user begins') }}{% endif %}")
	if err != nil {
		panic(err)
	}
	_, err = t.Render(chat.Input{Messages: []chat.Message{{Role: "assistant", Content: "Hello!"}}})
	fmt.Println(err)
	var failure *chat.TemplateError
	if errors.As(err, &failure) {
		fmt.Println(failure.Raised, failure.Line)
	}
	// Output:
	// chat: the template refuses the conversation: line 2: the user begins
	// true 2
}

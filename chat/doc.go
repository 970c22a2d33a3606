// Package chat turns a conversation into the text that a model was trained on, through the model file's own template.
//
//	t, err := chat.Parse(source) // tokenizer.chat_template of a GGUF file
//	prompt, err := t.Render(chat.Input{
//		Messages:            []chat.Message{{Role: "user", Content: "Hi"}},
//		AddGenerationPrompt: true,
//		BOS:                 "<s>",
//	})
//
// What always holds: a rendering equals that of transformers' apply_chat_template byte by byte (testdata/goldens.json: 45
// templates, 23 conversations each), refusals included. Keys of JSON keep the order in which they came. A template reads
// no file, changes no input, and ends: chat/jinja limits what it may do.
//
// docs/chat-templates.md says why the engine in chat/jinja is ours. Tokenising the prompt belongs to package tokenizer;
// it must not add a start token where the template wrote one.
package chat

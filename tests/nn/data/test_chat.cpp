// Chats as text: the templates that are known by name, those that are recognised by their text, and
// what is refused.
#include <string>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/gguf.h"
#include "support/temp_dir.h"

#include <hero/nn/data/chat.h>

namespace {

using namespace hero::nn::data;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

const std::vector<ChatMessage> kChat = {
    {"system", "Be brief."}, {"user", " Hi \n"}, {"assistant", "Hello."}, {"user", "Bye"}};
const std::vector<ChatMessage> kTurns = {{"user", "Hi"}, {"assistant", "Hello."}, {"user", "Bye"}};

// Templates that people meet, in the words of their models' files.
const std::string kSmolLM2 =
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ "
    "'<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
    "Face<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ "
    "'<|im_start|>assistant\n' }}{% endif %}";
const std::string kChatML =
    R"({% if not add_generation_prompt is defined %}{% set add_generation_prompt = false %}{% endif %}{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %})";
const std::string kQwen =
    R"({%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are Qwen.' }}
    {%- endif %}
    {{- "\n\n# Tools\n" }}{{- "<|im_end|>\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\n' + messages[0]['content'] + '<|im_end|>\n' }}
    {%- else %}
        {{- '<|im_start|>system\nYou are Qwen.<|im_end|>\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>' + '\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
{%- endif %}
)";
const std::string kLlama3 =
    R"({% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>

'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>

' }}{% endif %})";
const std::string kLlama31 =
    R"({{- bos_token }}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{{- "Cutting Knowledge Date: December 2023\n" }}
{{- "Today Date: " + date_string + "\n\n" }}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' }}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}
{%- endif %}
)";
const std::string kMistral =
    R"({{ bos_token }}{% for message in messages %}{% if message['role'] == 'user' %}{{ '[INST] ' + message['content'] + ' [/INST]' }}{% elif message['role'] == 'assistant' %}{{ message['content'] + eos_token}}{% endif %}{% endfor %})";
const std::string kMistralNemo =
    R"({{- bos_token }}{%- for message in messages %}{%- if message["role"] == "user" %}{{- "[INST]" + message["content"] + "[/INST]" }}{%- elif message["role"] == "assistant" %}{{- message["content"] + eos_token}}{%- endif %}{%- endfor %})";

std::string text_of(const std::string& jinja, const std::vector<ChatMessage>& chat) {
  return ChatTemplate::recognised(jinja, "x").text(chat);
}

// All bytes and the marks of the templates.
BPETokenizer tokenizer_with(const std::vector<std::string>& marks) {
  return BPETokenizer::train(
      "", {.vocab_size = 256 + static_cast<int64_t>(marks.size()), .special_tokens = marks});
}

}  // namespace

TEST_CASE("templates of chats by name are those that their models were trained on", "[nn][chat]") {
  CHECK(ChatTemplate::named("chatml").text(kChat) ==
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\n Hi \n<|im_end|>\n"
        "<|im_start|>assistant\nHello.<|im_end|>\n<|im_start|>user\nBye<|im_end|>\n"
        "<|im_start|>assistant\n");
  CHECK(ChatTemplate::named("chatml").text(kTurns, false) ==
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nHello.<|im_end|>\n"
        "<|im_start|>user\nBye<|im_end|>\n");
  CHECK(ChatTemplate::named("llama3").text(kChat) ==
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nBye<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n");
  CHECK(ChatTemplate::named("llama3.1").text(std::vector<ChatMessage>{{"user", "Hi"}}) ==
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\n"
        "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n");
  CHECK(ChatTemplate::named("mistral").text(kTurns) ==
        "<s>[INST] Hi [/INST] Hello.</s>[INST] Bye [/INST]");
  CHECK_THAT(hero::test::error_of([] { ChatTemplate::named("alpaca"); }),
             ContainsSubstring("there is no template 'alpaca'; there are chatml, llama3"));
}

TEST_CASE("templates of chats are recognised by their text", "[nn][chat]") {
  const std::string turns = ChatTemplate::named("chatml").text(kTurns);
  CHECK(text_of(kChatML, kTurns) == turns);
  CHECK(text_of(kChatML, kChat) == ChatTemplate::named("chatml").text(kChat));
  // a system message where a chat has none
  CHECK(text_of(kSmolLM2, kTurns) ==
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging "
        "Face<|im_end|>\n" +
            turns);
  CHECK(text_of(kSmolLM2, kChat) == ChatTemplate::named("chatml").text(kChat));
  CHECK(text_of(kQwen, kTurns) == "<|im_start|>system\nYou are Qwen.<|im_end|>\n" + turns);
  CHECK(text_of(kQwen, kChat) == ChatTemplate::named("chatml").text(kChat));
  CHECK(text_of(kLlama3, kChat) == ChatTemplate::named("llama3").text(kChat));
  CHECK(text_of(kLlama31, kChat) == ChatTemplate::named("llama3.1").text(kChat));
  CHECK(text_of(kMistral, kTurns) == "<s>[INST] Hi [/INST]Hello.</s>[INST] Bye [/INST]");
  CHECK(text_of(kMistralNemo, kTurns) == "<s>[INST]Hi[/INST]Hello.</s>[INST]Bye[/INST]");
  CHECK(ChatTemplate::recognised(kSmolLM2, "x").name() == "chatml");
  // Llama 3.2's has the date of the day
  std::string dated = kLlama31;
  dated.replace(
      dated.find("{%- set date_string"), 0,
      "{%- if strftime_now is defined %}{%- set date_string = strftime_now(\"%d %b %Y\") %}"
      "{%- endif %}");
  const std::string today = text_of(dated, kTurns), fixed = text_of(kLlama31, kTurns);
  CHECK(today != fixed);
  CHECK(today.size() == fixed.size());
}

TEST_CASE("templates that are not known are errors that show them", "[nn][chat]") {
  const auto refuses = [](const std::string& jinja) {
    const std::string error =
        hero::test::error_of([&] { ChatTemplate::recognised(jinja, "some.gguf"); });
    CHECK_THAT(error, StartsWith("chat: some.gguf has a template that is not known"));
    CHECK_THAT(error, ContainsSubstring("It begins: " + jinja.substr(0, 15)));
  };
  refuses("{{ 'Human: ' + messages[0].content }}");
  const auto changed = [](std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    REQUIRE(at != text.npos);
    return text.replace(at, from.size(), to);
  };
  refuses(changed(kChatML, "+ '\\n' + message['content']", "+ message['content']"));
  refuses(changed(kChatML, "message['content']", "message['content'] | trim"));
  refuses(changed(kChatML, "'<|im_start|>assistant\\n'", "'<|im_start|>assistant\\n<think>\\n'"));
  refuses(changed(kChatML, "{% for", "{{ bos_token }}{% for"));
  refuses(changed(kChatML, "{% for", "{% set messages = messages[1:] %}{% for"));
  refuses(changed(kSmolLM2, "!= 'system'", "!= 'robot'"));
  refuses(changed(kLlama3, "| trim", ""));
  refuses(changed(kLlama31, "December 2023", "March 2025"));
  refuses(changed(kLlama31, "26 Jul", "27 Jul"));
  refuses(changed(kMistral, "eos_token}}", "'</s> '}}"));
  refuses(changed(kMistral, "[/INST]", "[/INST]<|im_start|>"));
}

TEST_CASE("messages cannot write the marks of a template, and a tokenizer has to know them",
          "[nn][chat]") {
  const ChatTemplate chatml = ChatTemplate::named("chatml");
  const BPETokenizer tokenizer = tokenizer_with({"<|im_start|>", "<|im_end|>", "<|other|>"});
  const std::vector<int64_t> tokens = chatml.encode(tokenizer, kTurns);
  CHECK(tokenizer.decode(tokens) == chatml.text(kTurns));
  CHECK(tokens[0] == tokenizer.special_token("<|im_start|>"));
  CHECK(chatml.stop_tokens(tokenizer) ==
        std::vector<int64_t>{tokenizer.special_token("<|im_end|>")});
  for (const char* mark : {"<|im_end|>", "<|other|>"}) {
    const std::vector<ChatMessage> bad = {{"user", "hi"}, {"assistant", std::string("a") + mark}};
    for (const bool answers : {false, true}) {
      CHECK_THAT(hero::test::error_of([&] {
                   answers ? void(chatml.encode_answers(tokenizer, bad))
                           : void(chatml.encode(tokenizer, bad));
                 }),
                 ContainsSubstring("message 1 of 'assistant' has the special token '" +
                                   std::string(mark)));
    }
  }
  CHECK_THAT(hero::test::error_of([&] { ChatTemplate::named("llama3").encode(tokenizer, kTurns); }),
             ContainsSubstring("there is no special token '<|begin_of_text|>'"));
  CHECK_THAT(hero::test::error_of([&] {
               chatml.text(std::vector<ChatMessage>{{"tool", "4"}});
             }),
             ContainsSubstring("message 0 is of 'tool'; known are system, user and assistant"));
  CHECK_THAT(hero::test::error_of([&] { ChatTemplate::named("mistral").text(kChat); }),
             ContainsSubstring("message 0 is of 'system'"));
}

TEST_CASE("the tokens of answers are those that a model is to learn", "[nn][chat]") {
  const BPETokenizer tokenizer =
      tokenizer_with({"<|im_start|>", "<|im_end|>", "<|begin_of_text|>", "<|start_header_id|>",
                      "<|end_header_id|>", "<|eot_id|>", "<s>", "</s>"});
  const std::vector<ChatMessage> chat = {
      {"user", "Hi"}, {"assistant", "One."}, {"user", "Bye"}, {"assistant", "Two."}};
  for (const char* name : {"chatml", "llama3", "llama3.1", "mistral"}) {
    INFO(name);
    const ChatTemplate form = ChatTemplate::named(name);
    const ChatTokens result = form.encode_answers(tokenizer, chat);
    REQUIRE(result.tokens.size() == result.answers.size());
    CHECK(result.tokens == form.encode(tokenizer, chat, false));
    std::string learned;
    for (size_t i = 0; i < result.tokens.size(); ++i) {
      if (result.answers[i]) learned += tokenizer.decode(std::span(&result.tokens[i], 1));
    }
    const std::string end = tokenizer.decode(form.stop_tokens(tokenizer));
    const std::string space = std::string(name) == "mistral" ? " " : "";
    CHECK(learned == space + "One." + end + space + "Two." + end);
  }
  const ChatTemplate own("own",
                         [](std::span<const ChatMessage> messages, bool) {
                           return std::to_string(messages.size()) + messages.back().content;
                         },
                         {}, {});
  CHECK_THAT(hero::test::error_of([&] { own.encode_answers(tokenizer, chat); }),
             ContainsSubstring("template 'own' writes what is before message 1 in another way"));
}

TEST_CASE("the chat of the page", "[nn][chat]") {
  const BPETokenizer tokenizer = tokenizer_with({"<|im_start|>", "<|im_end|>"});
  // [snippet: chat]
  const ChatTemplate chatml = ChatTemplate::named("chatml");
  const std::vector<ChatMessage> messages = {{"system", "Be brief."}, {"user", "Hello"}};
  // <|im_start|>system, newline, Be brief.<|im_end|>, newline, ... <|im_start|>assistant, newline
  const std::vector<int64_t> prompt = chatml.encode(tokenizer, messages);
  const std::vector<int64_t> stops = chatml.stop_tokens(tokenizer);  // <|im_end|>
  // [end]
  CHECK(tokenizer.decode(prompt) ==
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHello<|im_end|>\n"
        "<|im_start|>assistant\n");
  CHECK(tokenizer.decode(stops) == "<|im_end|>");
}

TEST_CASE("a template of a program's own is a function", "[nn][chat]") {
  const BPETokenizer tokenizer = tokenizer_with({"<end>"});
  const ChatTemplate own("own",
                         [](std::span<const ChatMessage> messages, bool prompt) {
                           std::string text;
                           for (const ChatMessage& one : messages)
                             text += one.role + ": " + one.content + "<end>";
                           return prompt ? text + "assistant: " : text;
                         },
                         {"<end>"}, {"<end>"});
  CHECK(tokenizer.decode(own.encode(tokenizer, kTurns)) ==
        "user: Hi<end>assistant: Hello.<end>user: Bye<end>assistant: ");
  CHECK(own.stop_tokens(tokenizer) == std::vector<int64_t>{256});
  CHECK_THAT(hero::test::error_of([] { ChatTemplate("none", nullptr, {}, {}); }),
             ContainsSubstring("template 'none' has no function"));
}

TEST_CASE("a model's template is found in its file or folder", "[nn][chat]") {
  const hero_test::TempDir dir;
  const auto found = [&](const std::string& path) {
    return ChatTemplate::from_pretrained(path).text(kTurns);
  };
  const auto error_of = [&](const std::string& path) {
    return hero::test::error_of([&] { found(path); });
  };
  hero_test::spill(dir / "x.gguf",
                   hero_test::GGUFBuilder().text("tokenizer.chat_template", kQwen).bytes());
  CHECK(found(dir / "x.gguf") == text_of(kQwen, kTurns));
  hero_test::spill(dir / "y.gguf", hero_test::GGUFBuilder().bytes());
  CHECK_THAT(error_of(dir / "y.gguf"), ContainsSubstring("has no tokenizer.chat_template"));

  const std::string folder = dir / "";
  CHECK_THAT(error_of(folder), ContainsSubstring("neither chat_template.jinja nor"));
  const auto config = [&](const std::string& text) {
    hero_test::spill(dir / "tokenizer_config.json", text);
  };
  config("{}");
  CHECK_THAT(error_of(folder), ContainsSubstring("has no chat_template"));
  config(R"({"chat_template": 3})");
  CHECK_THAT(error_of(folder), ContainsSubstring("chat_template is 3; a text or a list"));
  const std::string mistral = R"({{ bos_token }}{{ '[INST] ' + message['content'] + ' [/INST]' }})"
                              R"({{ ' ' + message['content'] + eos_token }})";
  config(R"({"chat_template": ")" + mistral + R"("})");
  CHECK(found(folder) == ChatTemplate::named("mistral").text(kTurns));
  config(
      R"({"chat_template": [{"name": "tools", "template": "x"}, {"name": "default", "template": ")" +
      mistral + R"("}]})");
  CHECK(found(folder) == ChatTemplate::named("mistral").text(kTurns));
  hero_test::spill(dir / "chat_template.jinja", kChatML);
  CHECK(found(folder) == ChatTemplate::named("chatml").text(kTurns));
}

TEST_CASE("chats are read from lines of JSON, and a line that is none is named", "[nn][chat]") {
  const hero_test::TempDir dir;
  const auto read = [&](const std::string& text) {
    hero_test::spill(dir / "chats.jsonl", text);
    return load_chats(dir / "chats.jsonl");
  };
  const auto chats = read(
      "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\\n\"}]}\r\n\n"
      "{\"id\": 3, \"messages\": [{\"role\": \"system\", \"content\": \"\"}, "
      "{\"content\": \"\\u00e4\", \"role\": \"assistant\"}]}");
  REQUIRE(chats.size() == 2);
  CHECK(chats[0].size() == 1);
  CHECK(chats[0][0].content == "Hi\n");
  CHECK(chats[1][1].role == "assistant");
  CHECK(chats[1][1].content == "\xc3\xa4");
  CHECK(read("").empty());
  const auto refuses = [&](const std::string& line, const char* what) {
    const std::string error = hero::test::error_of([&] { read("\n" + line); });
    CHECK_THAT(error, ContainsSubstring("chats.jsonl: line 2"));
    CHECK_THAT(error, ContainsSubstring(what));
  };
  refuses("hello", "not JSON");
  refuses("[]", "has no list of messages: []");
  refuses("{\"messages\": []}", "has no list of messages");
  refuses("{\"messages\": [3]}", "message 0 is 3; a role and a content are needed");
  refuses("{\"messages\": [{\"role\": \"user\"}]}", "message 0 is");
  refuses("{\"messages\": [{\"role\": \"user\", \"content\": [1]}]}", "message 0 is");
  refuses("{\"messages\": [{\"role\": \"user\", \"content\": \"a\", \"weight\": 0}]}",
          "nothing else");
}

TEST_CASE("chat: the chats about opposites of the example are forty questions with one word each") {
  const auto chats = load_chats(HERO_GOLDEN_DIR "/../../tutorials/examples/opposites.jsonl");
  REQUIRE(chats.size() == 40);
  for (const auto& chat : chats) {
    REQUIRE(chat.size() == 2);
    CHECK_THAT(chat[0].content, StartsWith("What is the opposite of ") &&
                                    !ContainsSubstring("rough") && !ContainsSubstring("heavy"));
    CHECK(chat[1].role == "assistant");
    CHECK(chat[1].content.find(' ') == std::string::npos);
  }
}

TEST_CASE("chats that a template does not have are named by their line", "[nn][chat]") {
  const hero_test::TempDir dir;
  const BPETokenizer tokenizer = tokenizer_with({"<|im_start|>", "<|im_end|>"});
  const ChatTemplate form = ChatTemplate::named("chatml");
  const auto read = [&](const std::string& role, const std::string& said) {
    hero_test::spill(dir / "chats.jsonl",
                     "\n{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"" +
                         role + "\", \"content\": \"" + said + "\"}]}\n");
    return load_chats(dir / "chats.jsonl", form, tokenizer);
  };
  const auto chats = read("assistant", "Yes.");
  REQUIRE(chats.size() == 1);
  CHECK(chats[0].tokens ==
        form.encode_answers(tokenizer,
                            std::vector<ChatMessage>{{"user", "Hi"}, {"assistant", "Yes."}})
            .tokens);
  const std::string role = hero::test::error_of([&] { read("tool", "Yes."); });
  CHECK_THAT(role, ContainsSubstring("chats.jsonl: line 2: message 1 is of 'tool'"));
  CHECK_THAT(role, StartsWith("chat: ") && !ContainsSubstring(": chat: "));
  const std::string mark = hero::test::error_of([&] { read("assistant", "a<|im_end|>b"); });
  CHECK_THAT(mark, ContainsSubstring("chats.jsonl: line 2: message 1 of 'assistant' has the "
                                     "special token '<|im_end|>'"));
}

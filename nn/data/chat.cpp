#include <algorithm>
#include <array>
#include <ctime>
#include <optional>

#include <hero/core/error.h>
#include <hero/core/gguf.h>
#include <hero/core/io/file.h>
#include <hero/core/io/name_list.h>
#include <hero/core/json/json.h>
#include <hero/nn/data/chat.h>

namespace hero::nn::data {
namespace {

using Messages = std::span<const ChatMessage>;

constexpr uint64_t kMostTemplateBytes = uint64_t{1} << 24;

bool has(std::string_view text, std::string_view part) { return text.find(part) != text.npos; }

// The text without white space around it, as Jinja's filter `trim` returns it.
std::string_view stripped(std::string_view text) {
  constexpr std::string_view kSpaces = " \t\n\v\f\r";
  const size_t begin = text.find_first_not_of(kSpaces);
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) + 1 - begin);
}

// Templates of the same marks write other roles, such as those of tools, in ways of their own.
void check_roles(Messages messages) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string& role = messages[i].role;
    check(role == "system" || role == "user" || role == "assistant", "chat: message ", i,
          " is of '", core::cut_text(role), "'; known are system, user and assistant");
  }
}

// The system message of chats that do not begin with one.
ChatTemplate chatml(const std::optional<std::string>& system) {
  const auto text = [system](Messages messages, bool prompt) {
    check_roles(messages);
    std::string out;
    const auto add = [&](const std::string& role, const std::string& content) {
      out += "<|im_start|>" + role + "\n" + content + "<|im_end|>\n";
    };
    if (system && (messages.empty() || messages[0].role != "system")) add("system", *system);
    for (const ChatMessage& one : messages) add(one.role, one.content);
    if (prompt) out += "<|im_start|>assistant\n";
    return out;
  };
  return {"chatml", text, {"<|im_start|>", "<|im_end|>"}, {"<|im_end|>"}};
}

std::string llama3_header(const std::string& role) {
  return "<|start_header_id|>" + role + "<|end_header_id|>\n\n";
}

std::string llama3_message(const ChatMessage& message) {
  return llama3_header(message.role) + std::string(stripped(message.content)) + "<|eot_id|>";
}

std::vector<std::string> llama3_marks() {
  return {"<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
}

ChatTemplate llama3() {
  const auto text = [](Messages messages, bool prompt) {
    check_roles(messages);
    std::string out = "<|begin_of_text|>";
    for (const ChatMessage& one : messages) out += llama3_message(one);
    return prompt ? out + llama3_header("assistant") : out;
  };
  return {"llama3", text, llama3_marks(), {"<|eot_id|>"}};
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::localtime_r(&now, &parts);
  constexpr std::array<const char*, 12> kMonths = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
  const std::string day = std::to_string(parts.tm_mday);
  return (day.size() < 2 ? "0" : "") + day + " " + kMonths[static_cast<size_t>(parts.tm_mon)] +
         " " + std::to_string(parts.tm_year + 1900);
}

// Templates of Llama 3.1 have a fixed date, those of 3.2 that of the day.
ChatTemplate llama31(bool of_today) {
  const auto text = [of_today](Messages messages, bool prompt) {
    check_roles(messages);
    std::string out = "<|begin_of_text|>" + llama3_header("system");
    out += "Cutting Knowledge Date: December 2023\nToday Date: ";
    out += (of_today ? today() : "26 Jul 2024") + "\n\n";
    if (!messages.empty() && messages[0].role == "system") {
      out += stripped(messages[0].content);
      messages = messages.subspan(1);
    }
    out += "<|eot_id|>";
    for (const ChatMessage& one : messages) out += llama3_message(one);
    return prompt ? out + llama3_header("assistant") : out;
  };
  return {"llama3.1", text, llama3_marks(), {"<|eot_id|>"}};
}

// The spaces that differ between the versions of Mistral's template.
struct MistralSpaces {
  std::string before_question = " ", behind_question = " ", before_answer = " ";
  bool trims_answer = false;
  bool marks_are_tokens = false;
};

ChatTemplate mistral(const MistralSpaces& spaces) {
  const auto text = [spaces](Messages messages, bool /*prompt*/) {
    std::string out = "<s>";
    for (size_t i = 0; i < messages.size(); ++i) {
      const auto& [role, content] = messages[i];
      check(role == (i % 2 == 0 ? "user" : "assistant"), "chat: message ", i, " is of '",
            core::cut_text(role),
            "'; in Mistral's template user and assistant take turns, and "
            "there is no system message");
      if (i % 2 == 0) {
        out += "[INST]" + spaces.before_question + content + spaces.behind_question + "[/INST]";
      } else {
        out += spaces.before_answer;
        out += spaces.trims_answer ? stripped(content) : std::string_view(content);
        out += "</s>";
      }
    }
    return out;
  };
  std::vector<std::string> marks = {"<s>", "</s>"};
  if (spaces.marks_are_tokens) marks.insert(marks.end(), {"[INST]", "[/INST]"});
  return {"mistral", text, marks, {"</s>"}};
}

// A template's expressions in a form that does not depend on how they are laid out: without quotes,
// without white space, plus signs, parentheses and marks of trimmed space outside of texts, and
// members as message[role]. The text between tags stays as it is.
std::string plain_form(std::string_view jinja) {
  std::string out;
  char quote = 0;
  bool in_tag = false;
  for (size_t i = 0; i < jinja.size(); ++i) {
    const char c = jinja[i], next = i + 1 < jinja.size() ? jinja[i + 1] : '\0';
    if (quote != 0) {
      if (c == '\\' && next != '\0') {
        out += next == 'n' ? '\n' : next == 't' ? '\t' : next;
        ++i;
      } else if (c == quote) {
        quote = 0;
      } else {
        out += c;
      }
    } else if (in_tag && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '{' && (next == '{' || next == '%')) {
      in_tag = true;
      out += {c, next};
      ++i;
    } else if (in_tag && (c == '}' || c == '%') && next == '}') {
      in_tag = false;
      out += {c, next};
      ++i;
    } else if (!in_tag || !has(" \t\r\n+()-", std::string_view(&c, 1))) {
      out += c;
    }
  }
  const auto replace = [&](std::string_view from, std::string_view to) {
    for (size_t at = 0; (at = out.find(from, at)) != out.npos; at += to.size()) {
      out.replace(at, from.size(), to);
    }
  };
  replace("message.role", "message[role]");
  replace("message.content", "message[content]");
  replace("messages[0].role", "messages[0][role]");
  replace("{%setadd_generation_prompt=false%}", "");
  return out;
}

// The system message that a ChatML template gives to chats without one; false where it has
// something else.
bool find_system(std::string_view plain, std::optional<std::string>& system) {
  constexpr std::string_view kBegin = "<|im_start|>system\n", kEnd = "<|im_end|>";
  for (size_t at = 0; (at = plain.find(kBegin, at)) != plain.npos;) {
    at += kBegin.size();
    const size_t end = plain.find(kEnd, at);
    if (end == plain.npos) return false;
    const std::string_view text = plain.substr(at, end - at);
    // what is an expression, as in kBegin + messages[0].content + kEnd, is no message
    if (has(text, "messages[0]") || has(text, "{") || has(text, "}")) continue;
    if (system && *system != text) return false;
    system = text;
  }
  const bool asks =
      has(plain, "messages[0][role]!=system") || has(plain, "messages[0][role]==system");
  return asks == system.has_value() || !system;
}

std::optional<ChatTemplate> known(std::string_view jinja) {
  const std::string plain = plain_form(jinja);
  const bool of_chatml = has(plain, "<|im_start|>"), of_llama = has(plain, "<|start_header_id|>"),
             of_mistral = has(plain, "[INST]");
  const int kinds = int{of_chatml} + int{of_llama} + int{of_mistral};
  if (kinds != 1 || has(plain, "think>")) return {};
  if (of_chatml) {
    std::optional<std::string> system;
    const bool same = has(plain, "<|im_start|>message[role]\nmessage[content]<|im_end|>\n") &&
                      has(plain, "{{<|im_start|>assistant\n}}") && find_system(plain, system);
    const bool more = has(plain, "bos_token") || has(plain, "{%set") || has(plain, "|trim") ||
                      has(plain, "strftime_now");
    return same && !more ? std::optional(chatml(system)) : std::nullopt;
  }
  if (of_llama) {
    const bool same = has(plain,
                          "<|start_header_id|>message[role]<|end_header_id|>\n\n"
                          "message[content]|trim<|eot_id|>") &&
                      has(plain, "{{<|start_header_id|>assistant<|end_header_id|>\n\n}}") &&
                      has(plain, "bos_token");
    if (!same) return {};
    const bool dates = has(plain, "Date"), by_day = has(plain, "strftime_now");
    if (!dates && !by_day) return llama3();
    const bool same_dates = has(plain, "{{Cutting Knowledge Date: December 2023\n}}") &&
                            has(plain, "{{Today Date: date_string\n\n}}") &&
                            has(plain, "{%setdate_string=26 Jul 2024%}") &&
                            (!by_day || has(plain, "strftime_now%d %b %Y"));
    return same_dates ? std::optional(llama31(by_day)) : std::nullopt;
  }
  if (!has(plain, "bos_token") || has(plain, "[SYSTEM_PROMPT]")) return {};
  for (const char* before : {" ", ""}) {
    for (const char* behind : {" ", ""}) {
      const std::string question =
          std::string("[INST]") + before + "message[content]" + behind + "[/INST]";
      if (!has(plain, question)) continue;
      MistralSpaces spaces{.before_question = before, .behind_question = behind};
      spaces.marks_are_tokens = std::string_view(behind).empty();
      spaces.trims_answer = has(plain, "message[content]|trimeos_token}}");
      const std::string answer =
          spaces.trims_answer ? "message[content]|trimeos_token}}" : "message[content]eos_token}}";
      if (has(plain, "{{ " + answer)) return mistral(spaces);
      spaces.before_answer = "";
      if (has(plain, "{{" + answer)) return mistral(spaces);
    }
  }
  return {};
}

// The template in tokenizer_config.json: a text, or a list of named ones.
std::string template_of_config(const std::string& path) {
  const core::JSON config =
      core::parse_json(read_file_text(path, kMostTemplateBytes), "chat", path);
  const core::JSON* found = config.find("chat_template");
  check(found != nullptr && !found->is_null(), "chat: ", path,
        " has no chat_template; choose one by name, or give a function");
  if (found->is_string()) return found->text();
  if (found->is_array()) {
    for (const core::JSON& one : *found) {
      if (one.is_object() && one.value("name", nullptr) == "default") {
        return core::json_text(one["template"], "chat: " + path + ": template");
      }
    }
  }
  fail("chat: ", path, ": chat_template is ", core::shown(*found),
       "; a text or a list with one of the name default is needed");
}

}  // namespace

namespace {

// take(messages, where) of each chat in a file; `where` names its line.
template <class Take>
void each_chat(const std::string& path, const Take& take) {
  with_file_errors("chat", path, [&] {
    const std::string text = read_file_text(path);
    int64_t number = 0;
    for (size_t at = 0; at < text.size();) {
      const size_t end = std::min(text.find('\n', at), text.size());
      const std::string_view line = stripped(std::string_view(text).substr(at, end - at));
      at = end + 1;
      ++number;
      if (line.empty()) continue;
      const std::string where = path + ": line " + std::to_string(number);
      const core::JSON chat = core::parse_json(line, "chat", where);
      const core::JSON* found = chat.find("messages");
      check(found != nullptr && found->is_array() && !found->empty(), "chat: ", where,
            " has no list of messages: ", core::shown(chat));
      std::vector<ChatMessage> messages;
      for (const core::JSON& one : *found) {
        const bool known = one.is_object() && one.size() == 2 && one.contains("role") &&
                           one["role"].is_string() && one.contains("content") &&
                           one["content"].is_string();
        check(known, "chat: ", where, ": message ", messages.size(), " is ", core::shown(one),
              "; a role and a content are needed, both texts, and nothing else");
        messages.push_back({one["role"].text(), one["content"].text()});
      }
      take(std::move(messages), where);
    }
    return 0;
  });
}

}  // namespace

std::vector<std::vector<ChatMessage>> load_chats(const std::string& path) {
  std::vector<std::vector<ChatMessage>> chats;
  each_chat(path, [&](std::vector<ChatMessage> messages, const std::string& /*where*/) {
    chats.push_back(std::move(messages));
  });
  return chats;
}

std::vector<ChatTokens> load_chats(const std::string& path, const ChatTemplate& form,
                                   const BPETokenizer& tokenizer) {
  std::vector<ChatTokens> chats;
  each_chat(path, [&](const std::vector<ChatMessage>& messages, const std::string& where) {
    try {
      chats.push_back(form.encode_answers(tokenizer, messages));
    } catch (const Error& error) {
      constexpr std::string_view kOp = "chat: ";
      std::string_view what = error.what();
      if (what.starts_with(kOp)) what.remove_prefix(kOp.size());
      fail(kOp, where, ": ", what);
    }
  });
  return chats;
}

ChatTemplate::ChatTemplate(std::string name, Function function, std::vector<std::string> marks,
                           std::vector<std::string> ends)
    : name_(std::move(name)),
      function_(std::move(function)),
      marks_(std::move(marks)),
      ends_(std::move(ends)) {
  check(function_ != nullptr, "chat: template '", name_, "' has no function");
}

ChatTemplate ChatTemplate::named(std::string_view name) {
  if (name == "chatml") return chatml({});
  if (name == "llama3") return llama3();
  if (name == "llama3.1") return llama31(false);
  if (name == "mistral") return mistral({});
  fail("chat: there is no template '", core::cut_text(name),
       "'; there are chatml, llama3, llama3.1 and mistral");
}

ChatTemplate ChatTemplate::recognised(std::string_view jinja, const std::string& label) {
  if (auto found = known(jinja)) return std::move(*found);
  fail("chat: ", label,
       " has a template that is not known; choose chatml, llama3, llama3.1 or mistral by name, or "
       "give a function. It begins: ",
       core::cut_text(jinja, 300));
}

ChatTemplate ChatTemplate::from_pretrained(const std::string& path) {
  return with_file_errors("chat", path, [&] {
    if (!is_folder(path)) {
      constexpr const char* kKey = "tokenizer.chat_template";
      const auto text = core::GGUFReader(path).text(kKey);
      check(text.has_value(), "chat: ", path, " has no ", kKey,
            "; choose a template by name, or give a function");
      return recognised(*text, path);
    }
    const std::string own = path + "/chat_template.jinja";
    if (path_exists(own)) return recognised(read_file_text(own, kMostTemplateBytes), own);
    const std::string config = path + "/tokenizer_config.json";
    check(path_exists(config), "chat: ", path,
          " has neither chat_template.jinja nor tokenizer_config.json; choose a template by name, "
          "or give a function");
    return recognised(template_of_config(config), config);
  });
}

std::string ChatTemplate::text(std::span<const ChatMessage> messages, bool prompt) const {
  return function_(messages, prompt);
}

void ChatTemplate::check_messages(const BPETokenizer& tokenizer,
                                  std::span<const ChatMessage> messages) const {
  for (const std::string& mark : marks_) tokenizer.special_token(mark);
  const std::vector<std::string> special = tokenizer.special_tokens();
  for (size_t i = 0; i < messages.size(); ++i) {
    for (const std::string* part : {&messages[i].role, &messages[i].content}) {
      for (const std::string& token : special) {
        check(!has(*part, token), "chat: message ", i, " of '", core::cut_text(messages[i].role),
              "' has the special token '", core::cut_text(token),
              "', with which it could end itself; take it out, or write it in another way");
      }
    }
  }
}

std::vector<int64_t> ChatTemplate::encode(const BPETokenizer& tokenizer,
                                          std::span<const ChatMessage> messages,
                                          bool prompt) const {
  check_messages(tokenizer, messages);
  return tokenizer.encode(text(messages, prompt), SpecialTokens::encode, false);
}

ChatTokens ChatTemplate::encode_answers(const BPETokenizer& tokenizer,
                                        std::span<const ChatMessage> messages) const {
  check_messages(tokenizer, messages);
  const std::string all = text(messages, false);
  ChatTokens result;
  size_t done = 0;
  const auto add = [&](size_t end, bool answer) {
    const std::string_view piece = std::string_view(all).substr(done, end - done);
    const std::vector<int64_t> more = tokenizer.encode(piece, SpecialTokens::encode, false);
    result.tokens.insert(result.tokens.end(), more.begin(), more.end());
    result.answers.insert(result.answers.end(), more.size(), answer);
    done = end;
  };
  for (size_t i = 0; i < messages.size(); ++i) {
    if (messages[i].role != "assistant") continue;
    const std::string before = text(messages.first(i), true);
    const std::string with = text(messages.first(i + 1), false);
    check(all.starts_with(with) && with.starts_with(before), "chat: template '", name_,
          "' writes what is before message ", i,
          " in another way once more follows; answers cannot be told from the rest");
    size_t end = before.size();
    for (const std::string& mark : ends_) {
      const size_t at = with.rfind(mark);
      if (at != with.npos && at >= before.size()) end = std::max(end, at + mark.size());
    }
    check(end > before.size(), "chat: template '", name_, "' writes no end behind message ", i);
    add(before.size(), false);
    add(end, true);
  }
  add(all.size(), false);
  return result;
}

std::vector<int64_t> ChatTemplate::stop_tokens(const BPETokenizer& tokenizer) const {
  std::vector<int64_t> tokens;
  for (const std::string& mark : ends_) tokens.push_back(tokenizer.special_token(mark));
  return tokens;
}

}  // namespace hero::nn::data

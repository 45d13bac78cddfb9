#include <charconv>
#include <cmath>

#include <hero/core/io/file.h>
#include <hero/core/io/printable.h>
#include <hero/core/profile/trace_file.h>

namespace hero::core {

namespace {

constexpr size_t kChunkBytes = 1 << 20;

void append_string(std::string& out, std::string_view given) {
  static constexpr char hex[] = "0123456789abcdef";
  out += '"';
  for (const char c : utf8_text(given)) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (byte < 0x20) {
      out += "\\u00";
      out += hex[byte >> 4];
      out += hex[byte & 15];
    } else {
      out += c;
    }
  }
  out += '"';
}

// JSON has no infinities and no NaN.
void append_number(std::string& out, double value) {
  if (!std::isfinite(value)) return append_string(out, std::isnan(value) ? "NaN" : "Infinity");
  char text[32];
  const auto end = std::to_chars(text, text + sizeof text, value).ptr;
  out.append(text, end);
}

double whole_nanoseconds(double seconds) { return std::round(seconds * 1e9); }

// Nanoseconds as microseconds, which the format has.
void append_nanoseconds(std::string& out, double nanoseconds) {
  char text[352];
  const auto end =
      std::to_chars(text, text + sizeof text, nanoseconds / 1e3, std::chars_format::fixed, 3).ptr;
  out.append(text, end);
}

void append_time(std::string& out, double seconds) {
  append_nanoseconds(out, whole_nanoseconds(seconds));
}

void append_args(std::string& out, std::span<const TraceArg> args) {
  out += ",\"args\":{";
  for (const TraceArg& arg : args) {
    if (&arg != args.data()) out += ',';
    append_string(out, arg.name);
    out += ':';
    if (const auto* number = std::get_if<int64_t>(&arg.value)) out += std::to_string(*number);
    if (const auto* number = std::get_if<double>(&arg.value)) append_number(out, *number);
    if (const auto* text = std::get_if<std::string_view>(&arg.value)) append_string(out, *text);
  }
  out += '}';
}

}  // namespace

struct TraceFile::File {
  explicit File(const std::string& path) : output(path) { text = "{\"traceEvents\":[\n"; }

  // The head of an event: kind, place and name.
  void begin(char kind, int process, int thread, std::string_view name) {
    if (!first) text += ",\n";
    first = false;
    text += "{\"ph\":\"";
    text += kind;
    text += "\",\"pid\":" + std::to_string(process) + ",\"tid\":" + std::to_string(thread);
    text += ",\"name\":";
    append_string(text, name);
  }
  void end() {
    text += '}';
    if (text.size() < kChunkBytes) return;
    output.write(text);
    text.clear();
  }

  OutputFile output;
  std::string text;
  bool first = true;
  int64_t arrows = 0;
};

TraceFile::TraceFile(const std::string& path) : file_(std::make_unique<File>(path)) {}
TraceFile::~TraceFile() = default;

void TraceFile::name_process(int process, std::string_view name) {
  file_->begin('M', process, 0, "process_name");
  append_args(file_->text, std::vector<TraceArg>{{"name", name}});
  file_->end();
}

void TraceFile::name_thread(int process, int thread, std::string_view name) {
  file_->begin('M', process, thread, "thread_name");
  append_args(file_->text, std::vector<TraceArg>{{"name", name}});
  file_->end();
}

void TraceFile::span(int process, int thread, std::string_view name, double begin, double seconds,
                     const std::vector<TraceArg>& args) {
  file_->begin('X', process, thread, name);
  file_->text += ",\"ts\":";
  append_time(file_->text, begin);
  file_->text += ",\"dur\":";
  // from one whole nanosecond to another: a viewer drops a span that begins before the last one
  // ends
  append_nanoseconds(file_->text, whole_nanoseconds(begin + seconds) - whole_nanoseconds(begin));
  if (!args.empty()) append_args(file_->text, args);
  file_->end();
}

void TraceFile::counter(int process, std::string_view name, double time,
                        std::span<const TraceArg> series) {
  file_->begin('C', process, 0, name);
  file_->text += ",\"ts\":";
  append_time(file_->text, time);
  append_args(file_->text, series);
  file_->end();
}

void TraceFile::arrow(std::string_view name, int from_process, int from_thread, double from_time,
                      int to_process, int to_thread, double to_time) {
  const std::string id = ",\"cat\":\"arrow\",\"id\":" + std::to_string(file_->arrows++);
  const auto end_of = [&](char kind, int process, int thread, double time) {
    file_->begin(kind, process, thread, name);
    file_->text += id + ",\"ts\":";
    append_time(file_->text, time);
    file_->end();
  };
  end_of('s', from_process, from_thread, from_time);
  end_of('f', to_process, to_thread, to_time);
}

void TraceFile::close() {
  file_->text += "\n],\"displayTimeUnit\":\"ms\"}\n";
  file_->output.write(file_->text);
  file_->output.commit();
  file_->text.clear();
}

}  // namespace hero::core

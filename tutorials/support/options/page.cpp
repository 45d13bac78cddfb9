#include "support/options/page.h"

#include <cstdint>
#include <exception>
#include <optional>
#include <vector>

namespace tutorial {

namespace {

struct Page {
  hero::nn::Report report;
  int64_t steps = 0;
};

thread_local Page* open_page = nullptr;

std::vector<hero::nn::Metric> named(const std::string& run,
                                    std::initializer_list<hero::nn::Metric> metrics) {
  std::vector<hero::nn::Metric> list;
  for (const hero::nn::Metric& metric : metrics) {
    list.push_back({run.empty() ? metric.name : run + "/" + metric.name, metric.value});
  }
  return list;
}

class OpenPage {
 public:
  OpenPage(const std::string& file, const std::string& title)
      : page_{hero::nn::Report(file, {.title = title})} {
    open_page = &page_;
  }
  ~OpenPage() { open_page = nullptr; }
  OpenPage(const OpenPage&) = delete;
  OpenPage& operator=(const OpenPage&) = delete;

  int run(const std::function<int()>& body) {
    try {
      const int status = body();
      if (status == 0) page_.report.finish();
      return status;
    } catch (const std::exception& error) {
      page_.report.fail(error.what());
      throw;
    }
  }

 private:
  Page page_;
};

}  // namespace

void add_report(Command& command, std::string& file) {
  command.text("--report", file, "a page in HTML that shows the training, also while it goes on");
}

int reported(const std::string& file, const std::string& title, const std::function<int()>& body) {
  return file.empty() ? body() : OpenPage(file, title).run(body);
}

hero::nn::Report* page() { return open_page ? &open_page->report : nullptr; }

void note_more(const std::string& run, std::initializer_list<hero::nn::Metric> metrics) {
  if (open_page) open_page->report.write(open_page->steps, named(run, metrics));
}

void note_step(const std::string& run, std::initializer_list<hero::nn::Metric> metrics) {
  if (!open_page) return;
  Page& page = *open_page;
  std::vector<hero::nn::Metric> all = named(run, metrics);
  page.report.write(++page.steps, all);
}

}  // namespace tutorial

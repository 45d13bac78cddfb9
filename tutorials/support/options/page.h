#pragma once
// The option --report FILE: the program's training runs as one page in HTML.
#include <functional>
#include <initializer_list>
#include <string>

#include "support/options/command.h"

#include <hero/nn/training/report.h>

namespace tutorial {

/// Adds the option.
void add_report(Command& command, std::string& file);

/// Runs `body` and returns what it returns. Where a file is named, a page is there meanwhile, which
/// says at the end that the run is finished, or failed with its error; or, where `body` does not
/// return 0, that it was stopped.
int reported(const std::string& file, const std::string& title, const std::function<int()>& body);

/// The calling thread's page, or null.
hero::nn::Report* page();

/// A step of a run, on the calling thread's page if there is one. Lines have the run's name; steps
/// are counted through all runs of the program, which come one after the other.
void note_step(const std::string& run, std::initializer_list<hero::nn::Metric> metrics);
/// More of the step that was noted last.
void note_more(const std::string& run, std::initializer_list<hero::nn::Metric> metrics);

}  // namespace tutorial

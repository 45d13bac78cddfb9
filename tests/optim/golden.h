#pragma once
// Problems and reference trajectories of tests/golden/optim.
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "support/catch.h"
#include "support/golden_dir.h"

#include <hero/autograd/ops.h>

namespace hero_test {

using hero::Tensor;

/// Where the trajectories lie: HERO_GOLDEN_OPTIM, else the copy in this tree.
inline std::string golden_optim(const std::string& file) {
  const char* other = std::getenv("HERO_GOLDEN_OPTIM");
  return (other ? std::string(other) : hero::test::golden_dir() + "/optim") + "/" + file;
}

/// The cells of a CSV file, its header left out.
inline std::vector<std::vector<std::string>> read_csv(const std::string& path) {
  std::ifstream file(path);
  INFO(path);
  REQUIRE(file.good());
  std::vector<std::vector<std::string>> rows;
  std::string line;
  std::getline(file, line);
  while (std::getline(file, line)) {
    std::stringstream cells(line);
    rows.emplace_back();
    for (std::string cell; std::getline(cells, cell, ',');) rows.back().push_back(cell);
  }
  return rows;
}

/// A function of named float64 parameters, as cases.json names it.
class Problem {
 public:
  Problem(std::string function, const std::vector<double>& start, hero::Device device = hero::kCpu)
      : function_(std::move(function)), device_(device) {
    if (function_.rfind("mlp_", 0) == 0) {
      read_data();
      for (const char* name : {"W1", "b1", "W2", "b2"}) add(name, data_.at(name));
    } else {
      for (size_t i = 0; i < start.size(); ++i) {
        add(std::string("p").append(std::to_string(i)),
            hero::tensor(std::vector<double>{start[i]}, {hero::kFloat64}));
      }
    }
  }

  const std::vector<Tensor>& params() const { return params_; }
  const Tensor& param(const std::string& name) const {
    for (size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == name) return params_[i];
    }
    FAIL("no parameter " << name);
    std::abort();
  }

  /// One element, any shape.
  Tensor loss() const {
    using namespace hero;
    const auto& p = params_;
    if (function_ == "sin_x2") return sin(p[0]) + square(p[0]) / 10;
    if (function_ == "rosenbrock") {
      return square(1 - p[0]) + 100 * square(p[1] - square(p[0]));
    }
    REQUIRE(function_.rfind("mlp_", 0) == 0);
    const Tensor h = tanh(matmul(data_.at("X"), p[0].t()) + p[1]);
    return mean(square(matmul(h, p[2].t()) + p[3] - data_.at("Y")));
  }

  /// All parameters, behind one another; a device is waited for once.
  std::vector<double> values() const {
    std::vector<Tensor> all;
    for (const Tensor& param : params_) all.push_back(hero::flatten(param.detach()));
    return hero::cat(all).to_vector<double>();
  }

 private:
  void add(const std::string& name, const Tensor& value) {
    names_.push_back(name);
    params_.push_back(value.to(device_).clone().requires_grad_());
  }
  void read_data() {
    std::map<std::string, std::vector<double>> values;
    std::map<std::string, hero::Shape> shapes;
    for (const auto& row : read_csv(golden_optim(function_ + "_data.csv"))) {
      values[row[0]].push_back(std::stod(row[5]));
      shapes[row[0]] = {std::stoll(row[1]), std::stoll(row[2])};
    }
    for (auto& [name, list] : values) {
      if (name[0] == 'b') shapes[name] = {shapes[name][0]};
      data_[name] = Tensor(hero::Array::from(list, shapes[name]).to(device_));
    }
  }

  std::string function_;
  hero::Device device_;
  std::vector<std::string> names_;
  std::vector<Tensor> params_;
  std::map<std::string, Tensor> data_;
};

}  // namespace hero_test

// What an optimizer does takes no longer for each of many parameters than for each of few.
#include <functional>
#include <utility>
#include <vector>

#include "support/catch.h"
#include "support/growth.h"

#include <hero/autograd/ops.h>
#include <hero/optim/optim.h>

using namespace hero;
using hero_test::growth_to_eightfold;
using hero_test::kLinear;

namespace {

constexpr int kParameters = 1000;

// With gradients.
std::vector<Tensor> parameters_of(int count) {
  std::vector<Tensor> list;
  for (int i = 0; i < count; ++i) {
    list.push_back(zeros({2}, {.requires_grad = true}));
    list.back().set_grad(ones({2}));
  }
  return list;
}

}  // namespace

TEST_CASE("making, stepping and saving an optimizer grow with the number of groups") {
  using Work = std::pair<const char*, std::function<void(const std::vector<Tensor>&)>>;
  const std::vector<Work> works = {
      {"a group each",
       [](const std::vector<Tensor>& p) {
         std::vector<optim::NAdam::Group> groups;
         for (const Tensor& each : p) groups.push_back({{each}, {.lr = 0.1}});
         optim::NAdam nadam(groups);
         nadam.step();
         nadam.state_dict();
       }},
      {"a rate each",
       [](const std::vector<Tensor>& p) {
         optim::SGD sgd({p[0]}, {.lr = 0.1});
         for (size_t i = 1; i < p.size(); ++i) {
           sgd.add_param_group({{p[i]}, {.lr = 0.1 / static_cast<double>(i)}});
         }
         sgd.step();
         sgd.step();
       }},
  };
  for (const auto& [name, work] : works) {
    INFO(name);
    CHECK(growth_to_eightfold(kParameters, [&](int count) {
            return [&work, list = parameters_of(count)] { work(list); };
          }) < kLinear);
  }
}

TEST_CASE("a parameter that is given twice is found in whichever group it is") {
  const std::vector<Tensor> list = parameters_of(3);
  CHECK_THROWS_WITH(optim::SGD({list[0], list[1], list[0]}, {.lr = 0.1}),
                    Catch::Matchers::ContainsSubstring("parameter 2") &&
                        Catch::Matchers::ContainsSubstring("is given twice"));
  optim::SGD sgd({list[0], list[1]}, {.lr = 0.1});
  CHECK_THROWS_WITH(sgd.add_param_group({{list[2], list[1]}, {.lr = 0.1}}),
                    Catch::Matchers::ContainsSubstring("parameter 3"));
  sgd.add_param_group({{list[2]}, {.lr = 0.1}});  // nothing was added before
  CHECK(sgd.parameters().size() == 3);
}

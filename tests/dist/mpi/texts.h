#pragma once
// Texts that ranks print for a comparison of backends: threads and processes must print the same.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "dist/data_parallel/strategies.h"

namespace hero::test {

// What `print` writes goes to a file of the rank in the folder HERO_TEXTS: of long outputs of
// several processes a launcher may mix the lines.
inline dist::RankProgram into_files(dist::RankProgram print) {
  return [print = std::move(print)](dist::Communicator& world) {
    const char* const folder = std::getenv("HERO_TEXTS");
    check(folder != nullptr, "HERO_TEXTS names the folder");
    std::ofstream file(std::string(folder) + "/" + std::to_string(world.rank()));
    struct Redirected {  // also where `print` throws
      std::ostream& out;
      std::streambuf* const before;
      ~Redirected() { out.rdbuf(before); }
    };
    {
      const Redirected redirected{world.out(), world.out().rdbuf(file.rdbuf())};
      print(world);
    }
    file.flush();
    check(file.good(), "cannot write to ", folder);
  };
}

// What every strategy leaves on this rank after some steps on the device.
inline void print_strategies(dist::Communicator& world, int steps,
                             const std::vector<Subject>& subjects,
                             const std::vector<Method>& methods, Device device = kCpu) {
  for (const Subject subject : subjects) {
    for (const Method method : methods) {
      for (const ShardingStrategy strategy :
           {ShardingStrategy::ddp, ShardingStrategy::zero1, ShardingStrategy::zero2,
            ShardingStrategy::zero3, ShardingStrategy::fsdp, ShardingStrategy::fsdp_kept,
            ShardingStrategy::hybrid}) {
        if (strategy == ShardingStrategy::hybrid && world.size() % 2 != 0) continue;
        auto model = make_subject(subject);
        model->to(device);
        climb(strategy, subject, *model, world);
        auto optimizer = make_method(method, model->parameters());
        train(subject, *model, *optimizer, world, steps, 0.5);
        uint64_t state = 0;
        for (const Tensor& p : model->parameters()) state = 31 * state + hash(p.array().to(kCpu));
        for (const auto& entry : optimizer->state_dict()) {
          state = 31 * state + hash(entry.array.to(kCpu));
        }
        world.out() << name(strategy) << " subject " << static_cast<int>(subject) << " method "
                    << static_cast<int>(method) << " " << state << " sent "
                    << world.traffic().bytes() << "\n";
        world.traffic().reset();
      }
    }
  }
}

}  // namespace hero::test

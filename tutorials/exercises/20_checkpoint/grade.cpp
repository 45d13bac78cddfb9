// Grades answers to exercise 20.
#include <chrono>
#include <cmath>
#include <map>
#include <mutex>
#include <thread>

#include "exercises/20_checkpoint/exercise.h"
#include "exercises/support/ranks.h"

using exercise::grouped, exercise::number, exercise::require, exercise::Run, exercise::Shards;
using exercise::Wrong;
using hero::Array;
using hero::dist::ChunkCounts, hero::dist::Communicator;
using tutorial::Cut;

namespace {

constexpr int64_t kNumel = 62;  // no multiple of 3 or 4
constexpr int kMost = 4;        // ranks
const char* const kStates[] = {"parameters", "momentum"};

// A folder in memory. It notes how many numbers each rank reads, and when the list was written.
class Disk {
 public:
  std::map<std::string, std::vector<float>> files;
  std::vector<int64_t> list;
  int lists = 0;             // how often it was written
  std::string missing = {};  // a file that was not there when the list was written
  std::mutex mutex;
};
class View : public exercise::Folder {
 public:
  View(Disk& disk, int rank, int ranks, int slow = -1)
      : disk_(disk), rank_(rank), ranks_(ranks), slow_(slow) {}

  void write(const std::string& file, const Array& numbers) override {
    // so that nobody relies on the others being as fast
    if (rank_ == slow_) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    const std::scoped_lock lock(disk_.mutex);
    require(disk_.files.count(file) == 0, "Rank ", rank_, " writes the file ", file,
            ", which is there already: file_of(state, world.rank()) is a rank's own.");
    disk_.files[file] = numbers.flatten().to_vector<float>();
    written += numbers.numel();
  }
  Array read(const std::string& file, int64_t begin, int64_t end) override {
    const std::scoped_lock lock(disk_.mutex);
    const auto found = disk_.files.find(file);
    require(found != disk_.files.end(), "Rank ", rank_, " reads the file ", file,
            ", and there is none: the list says how many ranks have saved.");
    const auto size = static_cast<int64_t>(found->second.size());
    require(begin <= end, "Rank ", rank_, " reads the numbers ", begin, " to ", end,
            " of the file ", file,
            ". A file that has nothing of this rank's shard is not read: only where begin < "
            "end.");
    require(
        begin >= 0 && end <= size, "Rank ", rank_, " reads the numbers ", begin, " to ", end,
        " of the file ", file, ", which has ", size,
        ": places in a file are counted from its own first number. What a rank takes begins with "
        "the larger one of the file's first number and cut.begin, and ends with the smaller one "
        "of their ends.");
    read_numbers += end - begin;
    return Array::from(
        std::vector<float>(found->second.begin() + begin, found->second.begin() + end),
        {end - begin});
  }
  void write_list(const std::vector<int64_t>& counts) override {
    const std::scoped_lock lock(disk_.mutex);
    ++disk_.lists;
    disk_.list = counts;
    for (const char* state : kStates) {
      for (int rank = 0; rank < ranks_; ++rank) {
        const std::string file = exercise::file_of(state, rank);
        if (disk_.files.count(file) == 0 && disk_.missing.empty()) disk_.missing = file;
      }
    }
  }
  std::vector<int64_t> read_list() override {
    const std::scoped_lock lock(disk_.mutex);
    return disk_.list;
  }

  int64_t written = 0, read_numbers = 0;

 private:
  Disk& disk_;
  int rank_, ranks_, slow_;
};

// Number i of a state: what it is says where it belongs.
float value(size_t state, int64_t i) {
  return static_cast<float>(1000 * (state + 1)) + static_cast<float>(i);
}

Shards shards_of(const Cut& cut, bool filled) {
  Shards shards;
  for (size_t state = 0; state < 2; ++state) {
    std::vector<float> values;
    for (int64_t i = cut.begin; i < cut.end; ++i)
      values.push_back(filled ? value(state, i) : -1.0F);
    shards.emplace_back(kStates[state], Array::from(values, {cut.end - cut.begin}));
  }
  return shards;
}

// Rank `slow` takes its time for each file.
std::vector<Run> save_on(Disk& disk, int ranks, int slow = -1) {
  return exercise::run_ranks(ranks, [&](const Communicator& world, Run& run) {
    const Cut cut(world, kNumel);
    View folder(disk, world.rank(), ranks, slow);
    world.traffic().reset();
    exercise::save(folder, shards_of(cut, true), cut, world);
    run.sent = world.traffic().bytes();
  });
}

// save() on so many ranks, one of which is slow.
void check_saving(int ranks, int slow) {
  Disk disk;
  const std::vector<Run> runs = save_on(disk, ranks, slow);
  const std::string on = "On " + std::to_string(ranks) + (ranks == 1 ? " rank " : " ranks ");
  const auto cut = ChunkCounts::balanced(kNumel, ranks);
  for (size_t state = 0; state < 2; ++state) {
    for (int rank = 0; rank < ranks; ++rank) {
      const std::string file = exercise::file_of(kStates[state], rank);
      require(disk.files.count(file) > 0, on, "there is no file ", file,
              ": every rank saves each of its states.");
      const std::vector<float>& got = disk.files[file];
      require(static_cast<int64_t>(got.size()) == cut.count(rank), on, "the file ", file, " has ",
              got.size(), " numbers, and the shard has ", cut.count(rank), ".");
      for (size_t i = 0; i < got.size(); ++i) {
        const float right = value(state, cut.first(rank) + static_cast<int64_t>(i));
        require(got[i] == right, on, "number ", i, " of the file ", file, " is ", number(got[i]),
                " and should be ", number(right), ".");
      }
    }
  }
  require(disk.lists > 0, on, "nobody writes the list.");
  require(disk.missing.empty(), on, "the list is written while the file ", disk.missing,
          " is not there yet. A run that is killed at this moment leaves a list of files that do "
          "not exist: wait for all ranks, by world.barrier(), before the list.");
  require(disk.lists == 1, on, "the list is written ", disk.lists, " times: one rank writes it.");
  require(disk.list == cut.to_vector(), on,
          "the list does not say how many numbers each rank has: cut.counts.");
  for (const Run& run : runs) {
    require(run.sent == 0, on, "save() sends ", grouped(run.sent),
            " bytes to other ranks: a shard is written by the rank that has it, and no rank ever "
            "holds the whole.");
  }
}

std::string saving() {
  for (int ranks = 1; ranks <= kMost; ++ranks) {
    for (int slow = 0; slow < ranks; ++slow) check_saving(ranks, slow);
  }
  return "on 1, 2, 3 and 4 ranks a file for each rank and state, and the list when all are there.";
}

std::string killed() {
  Disk disk;
  save_on(disk, 3);
  disk.list.clear();
  exercise::run_ranks(2, [&](const Communicator& world, Run&) {
    const Cut cut(world, kNumel);
    View folder(disk, world.rank(), 2);
    const Shards shards = shards_of(cut, false);
    const bool loaded = exercise::load(folder, shards, cut);
    require(!loaded, "There is no list, and load() returns true.");
    for (const auto& [state, shard] : shards) {
      for (const float got : shard.to_vector<float>())
        require(got == -1.0F, "There is no list, and load() changes the shard of ", state, ".");
    }
  });
  return "without a list nothing is loaded.";
}

std::string resuming() {
  for (int before = 1; before <= kMost; ++before) {
    Disk disk;
    save_on(disk, before);
    for (int ranks = 1; ranks <= kMost; ++ranks) {
      exercise::run_ranks(ranks, [&](const Communicator& world, Run&) {
        const Cut cut(world, kNumel);
        View folder(disk, world.rank(), ranks);
        const Shards shards = shards_of(cut, false);
        const std::string place = "Saved on " + std::to_string(before) + ", resumed on " +
                                  std::to_string(ranks) + ": on rank " +
                                  std::to_string(world.rank()) + " ";
        require(exercise::load(folder, shards, cut), place, "load() returns false.");
        for (size_t state = 0; state < 2; ++state) {
          const std::vector<float> got = shards[state].second.to_vector<float>();
          for (size_t i = 0; i < got.size(); ++i) {
            const int64_t at = cut.begin + static_cast<int64_t>(i);
            if (got[i] == value(state, at)) continue;
            const auto is = static_cast<int64_t>(got[i]);
            const int64_t from = is - 1000 * static_cast<int64_t>(state + 1);
            std::string why;
            if (is == -1) {
              why = i == 0 && state == 1
                        ? " This state was not loaded."
                        : " It was not loaded: what was read has to be copied into "
                          "the shard, copy(part of the shard, numbers).";
            } else if (from >= 0 && from < kNumel) {
              why = " That is number " + std::to_string(from) + " of the state.";
              if (from - at == -cut.begin) {
                why += " Every rank needs its own numbers, which begin with cut.begin.";
              } else {
                why +=
                    " The numbers of a file have two places: in the file they are counted from its "
                    "first number, in the shard from cut.begin. The first number of a file is the "
                    "sum of the counts before it.";
              }
            } else {
              why = " That belongs to the other state.";
            }
            throw Wrong(place + "number " + std::to_string(at) + " of " + kStates[state] + " is " +
                        number(got[i]) + " and should be " + number(value(state, at)) + "." + why);
          }
        }
      });
    }
  }
  return "saved on 1, 2, 3 and 4 ranks and resumed on 1, 2, 3 and 4, every number is where it "
         "belongs.";
}

std::string bytes() {
  constexpr int kBefore = 3, kRanks = 4;
  Disk disk;
  save_on(disk, kBefore);
  const auto runs = exercise::run_ranks(kRanks, [&](const Communicator& world, Run& run) {
    const Cut cut(world, kNumel);
    View folder(disk, world.rank(), kRanks);
    exercise::load(folder, shards_of(cut, false), cut);
    run.notes = {4 * folder.read_numbers};
  });
  const auto cut = ChunkCounts::balanced(kNumel, kRanks);
  for (int rank = 0; rank < kRanks; ++rank) {
    const int64_t got = runs[static_cast<size_t>(rank)].notes[0], right = 4 * 2 * cut.count(rank);
    require(got == right, "Saved on 3, resumed on 4: rank ", rank, " reads ", grouped(got),
            " bytes, and both of its shards have ", grouped(right), ".",
            got >= 4 * 2 * kNumel
                ? " It reads all files whole, which a rank may have no memory for."
                : " It reads numbers that belong to other ranks.");
  }
  return "saved on 3, resumed on 4, rank 0 reads " + grouped(runs[0].notes[0]) +
         " bytes, by the formula 2 Psi / N " + grouped(4 * 2 * kNumel / kRanks) + ".";
}

// A step of SGD with momentum, each number by itself.
void step(const Shards& shards, const Cut& cut, int at) {
  const hero::NoGrad no_grad;
  std::vector<float> gradient;
  for (int64_t i = cut.begin; i < cut.end; ++i)
    gradient.push_back(static_cast<float>(std::sin(0.7 * static_cast<double>(i) + at)));
  hero::Tensor p(shards[0].second), m(shards[1].second);
  m.copy_(0.9 * m + hero::Tensor(Array::from(gradient, {cut.end - cut.begin})));
  p.copy_(p - 0.1 * m);
}

// The steps first ... last - 1, on so many ranks: what all shards of the parameters are at the end.
std::vector<float> train(Disk& disk, int ranks, int first, int last, bool saves) {
  std::vector<std::vector<float>> parts(static_cast<size_t>(ranks));
  exercise::run_ranks(ranks, [&](const Communicator& world, Run&) {
    const Cut cut(world, kNumel);
    View folder(disk, world.rank(), ranks);
    const Shards shards = shards_of(cut, first == 0);
    if (first > 0) exercise::load(folder, shards, cut);
    for (int at = first; at < last; ++at) step(shards, cut, at);
    if (saves) exercise::save(folder, shards, cut, world);
    parts[static_cast<size_t>(world.rank())] = shards[0].second.to_vector<float>();
  });
  std::vector<float> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

std::string training() {
  Disk none;
  const std::vector<float> right = train(none, 1, 0, 6, false);
  for (int before = 1; before <= kMost; ++before) {
    for (int ranks = 1; ranks <= kMost; ++ranks) {
      Disk disk;
      train(disk, before, 0, 3, true);
      const std::vector<float> got = train(disk, ranks, 3, 6, false);
      for (size_t i = 0; i < right.size(); ++i) {
        require(got[i] == right[i], "Three steps on ", before, " ranks and three on ", ranks,
                ": number ", i, " of the parameters is ", number(got[i], hero::kFloat32),
                " and should be ", number(right[i], hero::kFloat32), ".");
      }
    }
  }
  return "three steps on 1 to 4 ranks and three more on 1 to 4 have the bits of six on one.";
}

}  // namespace

int main() {
  return exercise::grade("Exercise 20. A sharded checkpoint",
                         {{"save", saving, exercise::kRanksHang},
                          {"killed", killed, exercise::kRanksHang},
                          {"resume", resuming, exercise::kRanksHang},
                          {"bytes", bytes, exercise::kRanksHang},
                          {"training", training, exercise::kRanksHang}});
}

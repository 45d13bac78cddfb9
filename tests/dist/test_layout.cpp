// Parameters that lie in boxes, alone and under fully_shard(): first values, checkpoints, norms.
#include <bit>
#include <filesystem>
#include <string>
#include <vector>

#include "dist/parallel/boxes.h"
#include "support/catch.h"
#include "support/temp_dir.h"
#include <nlohmann/json.hpp>

#include <hero/autograd/autograd.h>
#include <hero/dist/checkpoint/manifest.h>
#include <hero/dist/checkpoint/part_files.h>

using namespace hero;
using namespace hero::test;
using Catch::Matchers::ContainsSubstring;
using hero_test::slurp, hero_test::spill, hero_test::TempDir;

namespace {

// Three steps of a grid, which all end with the bits of a single process; `save` gets the result.
Whole& trained(const Grid& grid, Whole& whole, const std::function<void(GridRunner&)>& save) {
  on_grid(grid, [&](GridRunner& runner) {
    for (int i = 0; i < 3; ++i) runner.step(i);
    save(runner);
    add_state(whole, *runner.model, *runner.optimizer);
  });
  return whole;
}

bool has_boxes(const Grid& grid) { return grid.tensor > 1; }

std::vector<int64_t> bits_of(const Tensor& norm) {
  return {std::bit_cast<int64_t>(norm.to_vector<double>().front())};
}

}  // namespace

TEST_CASE("boxes made on meta get the slices of the whole's first values") {
  const auto whole = make_subject(Subject::mlp);
  for (const int shard : {1, 2}) {
    for (const int tensor : {2, 4}) {
      CAPTURE(shard, tensor);
      dist::run_ranks(shard * tensor, [&](dist::Communicator& world) {
        const dist::Mesh mesh(world, {{"shard", shard}, {"tensor", tensor}});
        std::unique_ptr<nn::Module> model;
        {
          const nn::DeviceScope meta(kMeta);
          model = make_subject(Subject::mlp);
        }
        cut_mlp(*model, mesh["tensor"]);
        if (shard > 1) {
          dist::fully_shard(*model, mesh["shard"], {.sync_module_states = false});
        } else {
          model->materialize(kCpu);
        }
        for (const auto& [name, leaf] : model->named_parameters()) {
          const Array expected = slice_of(whole->get_parameter(name).array(), leaf);
          expect(hash(leaf.array()) == hash(expected), "first values of ", name);
          expect(whole_shape(leaf) == whole->get_parameter(name).shape(), "the shape of ", name);
        }
      });
    }
  }
}

TEST_CASE("a module in boxes can be sharded once and forward needs to know of them") {
  const auto errors = errors_of(4, [](dist::Communicator& world) {
    const dist::Mesh mesh(world, {{"shard", 2}, {"tensor", 2}});
    const auto model = make_subject(Subject::mlp);
    cut_mlp(*model, mesh["tensor"]);
    dist::fully_shard(*model, mesh["shard"]);
    const Tensor leaf = model->get_parameter("fc2.weight");
    expect(partition(leaf)->boxes.size() == 1 && leaf.ndim() == 1, "an interval of a box");
    const char* boxes = world.rank() % 2 == 0 ? "of 0:11,0:7 of" : "of 0:11,7:6 of";
    expect(leaf.numel() == 0 || describe_part(leaf).find(boxes) != std::string::npos,
           describe_part(leaf));
    try {
      (*model)(Tensor(noise({2, 7})));
      expect(false, "forward must fail");
    } catch (const Error& error) {
      expect(std::string(error.what()).find("fc1") != std::string::npos, error.what());
      expect(std::string(error.what()).find("is a shard") != std::string::npos, error.what());
    }
    dist::fully_shard(*model, mesh["shard"]);
  });
  for (const std::string& error : errors)
    CHECK_THAT(error, ContainsSubstring("is a shard already"));
}

TEST_CASE("a checkpoint of any grid loads on any other with the same bits") {
  const TempDir dir;
  Whole single;
  trained(kGrids[0], single, [](GridRunner&) {});
  for (const Grid& from : kGrids) {
    Whole saved;
    const std::string run = dir / from.name;
    trained(from, saved, [&](GridRunner& runner) { runner.checkpointer(run).save(3); });
    CAPTURE(from.name);
    REQUIRE(single.difference(saved) == "");
    const std::string folder = run + "/checkpoints/step-00000003";
    const std::string state = slurp(folder + "/trainer_state.json");
    CHECK_THAT(state, ContainsSubstring(has_boxes(from) ? "hero sharded checkpoint 2"
                                                        : "hero sharded checkpoint 1"));
    for (const Grid& to : kGrids) {
      CAPTURE(to.name);
      Whole loaded;
      on_grid(to, [&](GridRunner& runner) {
        runner.spoil();
        expect(runner.checkpointer(run).resume() == 3, "step 3");
        add_state(loaded, *runner.model, *runner.optimizer);
      });
      CHECK(single.difference(loaded) == "");
    }
  }
}

TEST_CASE("boxes become the one file that a single process writes and are read from it") {
  const TempDir dir;
  Whole single;
  trained(kGrids[0], single, [&](GridRunner& runner) {
    runner.model->save(dir / "single.safetensors");
    runner.restart();  // no states
  });
  for (const Grid& grid : kGrids) {
    CAPTURE(grid.name);
    Whole saved, loaded, from_parts;
    const std::string path = dir / (std::string(grid.name) + ".safetensors");
    trained(grid, saved, [&](GridRunner& runner) {
      dist::save_full(path, runner.world, *runner.model);
      dist::Checkpointer checkpoint(dir / (std::string("run ") + grid.name), runner.world);
      checkpoint.track("model", *runner.model);
      checkpoint.save(1);
      runner.restart();
    });
    CHECK(slurp(path) == slurp(dir / "single.safetensors"));
    const auto load = [&](const std::string& from, const Grid& to, Whole& whole) {
      on_grid(to, [&](GridRunner& runner) {
        runner.spoil();
        dist::load_full(from, runner.world, *runner.model);
        add_state(whole, *runner.model, *runner.optimizer);
      });
    };
    load(dir / "single.safetensors", grid, loaded);
    load(dir / (std::string("run ") + grid.name + "/checkpoints/step-00000001"), kGrids[4],
         from_parts);
    CHECK(single.difference(saved) == "");
    CHECK(single.difference(loaded) == "");
    CHECK(single.difference(from_parts) == "");
  }
}

TEST_CASE("the norm over boxes is that of the whole to the bit") {
  for (const double p : {1.0, 2.0, std::numeric_limits<double>::infinity()}) {
    std::vector<int64_t> expected;
    std::vector<Array> clipped;
    for (const Grid& grid : kGrids) {
      CAPTURE(p, grid.name);
      on_grid(grid, [&](GridRunner& runner) {
        runner.give_gradients(5);
        const auto parameters = runner.model->parameters();
        const auto norm = bits_of(optim::clip_grad_norm(parameters, 0.05, {.norm = p}));
        if (!runner.world.defined()) {
          expected = norm;
          for (const Tensor& leaf : parameters) clipped.push_back(leaf.grad().array());
        }
        expect(norm == expected, "the norm's bits");
        for (size_t i = 0; i < parameters.size(); ++i) {
          const Array whole = slice_of(clipped[i], parameters[i]);
          expect(hash(parameters[i].grad().array()) == hash(whole), "a clipped gradient's bits");
        }
      });
    }
  }
}

TEST_CASE("boxes that overlap or leave a hole are an error on all ranks that names the value") {
  const auto save_with = [](std::vector<Box> first, std::vector<Box> second) {
    const TempDir dir;
    return errors_of(2, [&](dist::Communicator& world) {
      nn::Linear model(7, 13);
      const Partition place = {{13, 7},
                               world.rank() == 0 ? first : second,
                               0,
                               std::make_shared<dist::CommunicatorGroup>(world)};
      cut(model.weight, place, 1);
      dist::save_full(dir / "model.safetensors", world, model);
    });
  };
  const Box left = {{0, 0}, {13, 4}}, right = {{0, 4}, {13, 3}};
  for (const std::string& error : save_with({left}, {right})) CHECK(error == "");
  for (const std::string& error : save_with({left}, {{{0, 3}, {13, 4}}})) {
    CHECK_THAT(error, ContainsSubstring("the parts of 'weight' overlap at element 3;"));
  }
  for (const std::string& error : save_with({left}, {{{0, 5}, {13, 2}}})) {
    CHECK_THAT(error, ContainsSubstring("the parts of 'weight' leave a hole at element 4;"));
  }
  for (const std::string& error : save_with({left}, {left})) {
    CHECK_THAT(error, ContainsSubstring("the parts of 'weight' leave a hole at element 4;"));
  }
  for (const std::string& error : save_with({left}, {{{0, 4}, {12, 3}}})) {
    CHECK_THAT(error, ContainsSubstring("the parts of 'weight' end at element 88 of 91"));
  }
}

TEST_CASE("the text of a place says the place") {
  const std::vector<dist::ShardRange> ranges = {
      {{13, 7}, {}, 45, 20},
      {{13, 7}, {{{0, 2}, {13, 3}}}, 4, 20},
      {{13, 7}, {{{3, 0}, {2, 7}}, {{0, 0}, {2, 7}}}, 1, 20},
      {{}, {}, 0, 1},
      {{2, 0, 3}, {{{1, 0, 0}, {1, 0, 2}}}, 0, 0}};
  for (const dist::ShardRange& range : ranges) {
    const std::string text = dist::place_text(range);
    CAPTURE(text);
    const auto read = dist::parse_place(text, range.count);
    REQUIRE(read.has_value());
    CHECK((read->whole == range.whole && read->boxes == range.boxes && read->first == range.first &&
           read->count == range.count));
  }
  CHECK(dist::place_text(ranges[0]) == "45 of 13,7");
  CHECK(dist::place_text(ranges[1]) == "4 of 13,7 in 0:13,2:3");
  CHECK(dist::place_text(ranges[2]) == "1 of 13,7 in 3:2,0:7;0:2,0:7");
  CHECK(dist::place_text(dist::simplest({{13, 7}, {{{3, 0}, {2, 7}}}, 1, 5})) == "22 of 13,7");
  CHECK(dist::simplest(ranges[1]).boxes.size() == 1);
}

TEST_CASE("hostile texts of places are refused with one line") {
  const TempDir dir;
  const std::string path = dir / "model.safetensors";
  const Array part = noise({6});
  for (const std::string text :
       {"",
        "45",
        "45 of",
        "86 of 13,7",
        "-1 of 13,7",
        "0 of 13,-7",
        "0 of 13,",
        "0 of 13,7,",
        "0 of 13,7 ",
        "0 of 13,7 in",
        "0 of 13,7 in ",
        "0 of 13,7 in 0:13",
        "0 of 13,7 in 0:13,2",
        "0 of 13,7 in 0:13,2:",
        "0 of 13,7 in 0:13,2:3,0:1",
        "0 of 13,7 in 0:13,2:3;",
        "0 of 13,7 in 0:13,2:3;0:13",
        "0 of 13,7 in 0:13,2:3x",
        "0 of 13,7 in 0:14,2:3",
        "0 of 13,7 in 0:13,5:3",
        "0 of 13,7 in 0:13,-2:3",
        "0 of 13,7 in 0:13,2:-3",
        "0 of 13,7 in 0:1,0:5",
        "34 of 13,7 in 0:13,2:3",
        "9223372036854775807 of 13,7 in 0:13,2:3",
        "0 of 13,7 in 9223372036854775807:9223372036854775807,2:3",
        "0 of 13,7 in 0:13,2:9223372036854775808",
        "0 of 1,1,1,1,1,1,1,1,9",
        "0 of 4294967296,4294967296",
        "0 of 4294967296,4294967296 in 0:1,0:6",
        "0 of 4611686018427387904 in 0:4611686018427387904;0:4611686018427387904",
        "0 of 13,7\nin 0:13,2:3"}) {
    CAPTURE(text);
    CHECK_FALSE(dist::parse_place(text, 6).has_value());
    const std::vector<core::NamedArray> arrays = {{"weight", part}};
    core::save_safetensors(path, arrays, {{"part:weight", text}});
    std::string error;
    try {
      const dist::PartFiles files({{path}});
    } catch (const Error& caught) {
      error = caught.what();
    }
    CHECK_THAT(error, ContainsSubstring("'weight' of 6 elements has no place in '"));
    CHECK(error.find('\n') == std::string::npos);
  }
  const std::vector<core::NamedArray> arrays = {{"weight", part}};
  for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
           {"0 of 2,4 in 0:2,1:3", "leave a hole at element 0"},
           {"0 of 2,3 in 0:2,0:2;0:1,1:2", "overlap at element 1"},
           {"0 of 2,4 in 0:2,0:3", "leave a hole at element 3"}}) {
    core::save_safetensors(path, arrays, {{"part:weight", text}});
    CHECK_THROWS_WITH(dist::PartFiles({{path}}), ContainsSubstring(what));
  }
}

TEST_CASE("a checkpoint of format 1 is read into boxes and one of format 3 is refused") {
  const TempDir dir;
  const std::string run = dir / "run", folder = run + "/checkpoints/step-00000003";
  Whole saved, loaded;
  trained({"FSDP3", 3, 1}, saved, [&](GridRunner& runner) { runner.checkpointer(run).save(3); });
  const std::string state = slurp(folder + "/trainer_state.json");
  const auto with = [&](const char* format) {
    auto all = nlohmann::json::parse(state);
    all["format"] = format;
    return dist::parse_manifest(all.dump(), "the manifest").format;
  };
  REQUIRE(nlohmann::json::parse(state)["format"] == "hero sharded checkpoint 1");
  CHECK(with("hero sharded checkpoint 1") == 1);
  CHECK(with("hero sharded checkpoint 2") == 2);
  for (const char* format : {"hero sharded checkpoint 3", "hero sharded checkpoint", "", "2"}) {
    CHECK_THROWS_WITH(with(format), ContainsSubstring("the manifest") &&
                                        ContainsSubstring("the format is not 'hero sharded"));
  }
  on_grid({"TP2 x FSDP2", 2, 2}, [&](GridRunner& runner) {
    runner.spoil();
    expect(runner.checkpointer(run).resume() == 3, "step 3");
    add_state(loaded, *runner.model, *runner.optimizer);
  });
  CHECK(saved.difference(loaded) == "");
}

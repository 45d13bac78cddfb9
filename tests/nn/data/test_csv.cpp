#include <limits>
#include <string>
#include <vector>

#include "support/arrays.h"
#include "support/catch.h"
#include "support/temp_dir.h"

#include <hero/nn/data/csv.h>
#include <hero/nn/data/loader.h>

namespace {

using namespace hero::nn::data;
using Catch::Matchers::ContainsSubstring;
using Doubles = std::vector<double>;
using Names = std::vector<std::string>;

CSVTable parse(const std::string& text, const CSVOptions& options = {}) {
  return parse_csv(text, "f.csv", options);
}
std::string error(const std::string& text, const CSVOptions& options = {}) {
  return hero::test::error_of([&] { parse(text, options); });
}

TEST_CASE("a CSV file gives its columns by name", "[nn][data][csv]") {
  const CSVTable table = parse("x,y,label\n1,2.5,0\n-3e2, 4 ,1\n\n+5,.5,2");
  CHECK(table.names == Names{"x", "y", "label"});
  CHECK(table.values.dtype() == hero::kFloat32);
  CHECK(table.values.shape() == hero::Shape{3, 3});
  CHECK(table.values.to_vector<double>() == Doubles{1, 2.5, 0, -300, 4, 1, 5, 0.5, 2});
  CHECK(table.column("y").to_vector<double>() == Doubles{2.5, 4, 0.5});
  CHECK_THROWS_WITH(table.column("z"),
                    ContainsSubstring("no column 'z', it has 'x', 'y', 'label'"));
  // as samples
  DataLoader loader(TensorDataset({hero::Tensor(table.values.slice(1, 0, 2)),
                                   hero::Tensor(table.column("label").to(hero::kInt64))}),
                    {.batch_size = 3});
  const auto [inputs, labels] = *loader.begin();
  CHECK(inputs.shape() == hero::Shape{3, 2});
  CHECK(labels.to_vector<int64_t>() == std::vector<int64_t>{0, 1, 2});
}

TEST_CASE("CSV lines may end with CR alone, and no number or encoding is misread in silence",
          "[nn][data][csv]") {
  const CSVTable table = parse("x,y\r1,2\r\r\n3,4\r");
  CHECK(table.names == Names{"x", "y"});
  CHECK(table.values.to_vector<double>() == Doubles{1, 2, 3, 4});
  CHECK_THAT(error("x,y\r1,2\r3\r"), ContainsSubstring("f.csv line 3: 1 fields, expected 2"));
  CHECK_THAT(error("x\n1e39\n"), ContainsSubstring("line 2, column 'x': the number is outside "
                                                   "float32: '1e39'; read it as float64"));
  CHECK_THAT(error("x\n-3.5e38\n"), ContainsSubstring("outside float32"));
  CHECK(parse("x\n3.4e38\n").values.item<float>() == 3.4e38f);
  CHECK(parse("x\n1e39\n", {.dtype = hero::kFloat64}).values.item<double>() == 1e39);
  for (const std::string mark : {"\xff\xfe", "\xfe\xff"}) {
    CHECK_THAT(error(mark + std::string("x\0\n\0", 4)),
               ContainsSubstring("UTF-16; save it as UTF-8"));
  }
  CHECK_THAT(error(std::string("x\0\n\0001\0", 6)), ContainsSubstring("zero byte, as UTF-16 has"));
}

TEST_CASE("CSV columns are chosen, quoted, delimited and typed as the options say",
          "[nn][data][csv]") {
  // a byte order mark, CRLF, a quoted name with quotes, a text column that nobody asked for
  const std::string text =
      "\xef\xbb\xbf\"a \"\"b\"\"\";name;c\r\n\"1\";\"two; lines\r\nof text\";3\r\n4;x;5\r\n";
  const CSVTable table =
      parse(text, {.delimiter = ';', .columns = {"c", "a \"b\""}, .dtype = hero::kFloat64});
  CHECK(table.names == Names{"c", "a \"b\""});
  CHECK(table.values.to_vector<double>() == Doubles{3, 1, 5, 4});
  const CSVTable plain = parse("1 2\n3 4\n", {.delimiter = ' ', .header = false});
  CHECK(plain.names == Names{"0", "1"});
  CHECK(plain.values.shape() == hero::Shape{2, 2});
  CHECK(parse("a,b\n").values.shape() == hero::Shape{0, 2});
  const Doubles gap = parse("a,b\n1,\n,2\n", {.missing = -1.0}).values.to_vector<double>();
  CHECK(gap == Doubles{1, -1, -1, 2});
  const Doubles odd =
      parse("a\ninf\n-inf\n0.1\n", {.dtype = hero::kFloat64}).values.to_vector<double>();
  CHECK(odd == Doubles{std::numeric_limits<double>::infinity(),
                       -std::numeric_limits<double>::infinity(), 0.1});
}

TEST_CASE("a malformed CSV file is refused with line and column", "[nn][data][csv]") {
  CHECK(error("x,y\n1,2\n3,oops\n") == "load_csv: f.csv line 3, column 'y': not a number: 'oops'");
  CHECK(error("x,y\n1,2\n\n3\n") == "load_csv: f.csv line 4: 1 fields, expected 2");
  CHECK(error("x,y\n1,2,3\n") == "load_csv: f.csv line 2: 3 fields, expected 2");
  CHECK_THAT(error("x,y\n1,\n"), ContainsSubstring("line 2, column 'y': the field is empty"));
  CHECK_THAT(error("x\n1e999\n"), ContainsSubstring("outside float64: '1e999'"));
  CHECK_THAT(error("x\n1.5.2\n"), ContainsSubstring("not a number: '1.5.2'"));
  CHECK_THAT(error("x\n+-1\n"), ContainsSubstring("not a number"));
  CHECK_THAT(error("x,y\n1,\"2\n3,4\n"),
             ContainsSubstring("line 2, column 2: a quote is not closed"));
  CHECK_THAT(error("x,y\n\"1\"2,3\n"), ContainsSubstring("column 1: text after a closing quote"));
  // lines inside quotes count too
  CHECK_THAT(error("x,y\n\"1\n\n\",2\nz,2\n", {.columns = {"x"}}),
             ContainsSubstring("line 2, column 'x'"));
  CHECK_THAT(error("x,y\n\"\n\n\",2\n1,z\n", {.columns = {"y"}}),
             ContainsSubstring("line 5, column 'y'"));
  CHECK_THAT(error("x,x\n1,2\n", {.columns = {"x"}}),
             ContainsSubstring("has the column 'x' twice"));
  CHECK_THAT(error("x\n1\n", {.columns = {"w"}}), ContainsSubstring("no column 'w', it has 'x'"));
  CHECK_THAT(error(""), ContainsSubstring("is empty"));
  CHECK_THAT(error("x\n1\n", {.dtype = hero::kInt64}), ContainsSubstring("not int64"));
  const hero_test::TempDir dir;
  CHECK_THROWS_WITH(load_csv(dir / "none.csv"), ContainsSubstring(dir / "none.csv"));
  hero_test::spill(dir / "x.csv", "a\nb\n");
  CHECK_THROWS_WITH(load_csv(dir / "x.csv"), ContainsSubstring((dir / "x.csv") + " line 2"));
}

}  // namespace

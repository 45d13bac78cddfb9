#include <utility>

#include <hero/dist/data_parallel/all_gather.h>

namespace hero::dist {

void Gather::begin(const std::string& unit, const FlatParameter& flat) {
  const OffloadTarget::Fetched shard = target_.fetch(flat);
  if (group_.size() == 1) return;
  work_ = group_.all_gather(flat.whole, shard.part,
                            {.async = true, .unit = unit, .counts = flat.counts});
}

void Gather::wait(const FlatParameter& /*flat*/) { abandon(); }

void Gather::abandon() {
  work_.wait();
  work_ = {};
}

namespace {

// Gathers the shards encoded by a codec. Every rank decodes the same bytes, also those of its own
// shard, so all ranks compute with the same values. Shards are encoded where they lie, so that
// fewer bytes are copied from host memory.
class QuantizedGather : public Gather {
 public:
  QuantizedGather(const Communicator& group, core::Codec codec, OffloadTarget& target)
      : Gather(group, target), codec_(codec) {}

  void begin(const std::string& unit, const FlatParameter& flat) override {
    const MemoryScope tag(MemoryTag::communication);
    const int64_t rank = group_.rank();
    bytes_ = Array::empty({group_.size(), core::encoded_bytes(codec_, flat.own.count)}, kUInt8,
                          flat.whole.device());
    const OffloadTarget::Fetched shard =
        target_.fetch_encoded(codec_, flat, bytes_.slice(0, rank, rank + 1));
    work_ = group_.all_gather(bytes_, shard.part, {.async = true, .unit = unit});
  }
  void wait(const FlatParameter& flat) override {
    Gather::abandon();
    if (bytes_.defined()) {
      core::decode(codec_, std::exchange(bytes_, {}), flat.own.count, flat.whole);
    }
  }
  void abandon() override {
    Gather::abandon();
    bytes_ = {};
  }

 private:
  core::Codec codec_;
  Array bytes_;  // of all ranks, while they are under way
};

// Within a host: of what came by another gathering, the first since the shards were written, each
// rank of the host keeps a part. No shard was written since then: so it is on every rank, or on
// none.
class HostGather : public Gather {
 public:
  HostGather(std::unique_ptr<Gather> first, const Communicator& host, OffloadTarget& target)
      : Gather(host, target), first_(std::move(first)) {}

  void begin(const std::string& unit, const FlatParameter& flat) override {
    if (!reads_shards(flat)) {
      work_ = group_.all_gather(flat.whole, part_, {.async = true, .unit = unit});
    } else {
      part_ = {};
      first_->begin(unit, flat);
    }
  }
  void wait(const FlatParameter& flat) override {
    Gather::abandon();
    first_->wait(flat);
  }
  void abandon() override {
    Gather::abandon();
    first_->abandon();
  }
  bool reads_shards(const FlatParameter& flat) const override {
    return !part_.defined() || flat.shard.storage().version() != version_;
  }
  void before_free(const FlatParameter& flat) override {
    if (!reads_shards(flat)) return;
    const MemoryScope tag(MemoryTag::parameter);
    const int64_t count = flat.whole.numel() / group_.size();
    part_ = elements(flat.whole, {group_.rank() * count, count}).clone();
    version_ = flat.shard.storage().version();
  }

 private:
  std::unique_ptr<Gather> first_;
  Array part_;            // this rank's part within its host of the flat parameter; or none
  uint32_t version_ = 0;  // of the shard when that was taken
};

}  // namespace

std::unique_ptr<Gather> make_gather(const UnitOptions& options, OffloadTarget& target) {
  const Communicator& group = options.groups.shard;
  const Quantize& quantize = options.quantize;
  auto gather = std::make_unique<Gather>(group, target);
  if (group.size() == 1) return gather;
  if (quantize.weights) {
    gather = std::make_unique<QuantizedGather>(group, *quantize.weights, target);
  }
  if (!quantize.secondary) return gather;
  return std::make_unique<HostGather>(std::move(gather), options.route.inner, target);
}

}  // namespace hero::dist

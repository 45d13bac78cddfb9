#include <algorithm>
#include <utility>

#include <hero/dist/backends/agreement.h>

namespace hero::dist {

void Agreement::state(int me, int parties, const Digest& digest, const Digest& balance,
                      std::string carried) {
  me_ = me;
  parties_ = parties;
  for (bits_ = 0; 2 << bits_ <= parties; ++bits_) {
  }
  unit_ = carried.size();
  known_ = {digest, digest, balance, std::move(carried)};
}

void Agreement::hear(int stage, StatementSummary summary) { heard_[stage] = std::move(summary); }

int Agreement::sender(int stage) const {
  const int power = 1 << bits_;
  if (stage == 0) return me_ < folded() ? me_ + power : -1;
  if (stage == last_stage()) return me_ >= power ? me_ - power : -1;
  return me_ < power ? me_ ^ (1 << (stage - 1)) : -1;
}

int Agreement::receiver(int stage) const {
  const int power = 1 << bits_;
  if (stage == 0) return me_ >= power ? me_ - power : -1;
  if (stage == last_stage()) return me_ < folded() ? me_ + power : -1;
  return sender(stage);
}

bool Agreement::advance(const Send& send) {
  for (; stated() && !done(); ++stage_, sent_ = false) {
    const int to = receiver(stage_);
    if (to >= 0 && !sent_) send(to, stage_, known_);
    sent_ = true;
    if (sender(stage_) < 0) continue;
    const auto heard = heard_.find(stage_);
    if (heard == heard_.end()) return false;
    join(stage_, heard->second);
    heard_.erase(heard);
  }
  return done();
}

// The carried bytes are in the order of ranks below P, each followed by those of rank P + i, if
// there is one.
void Agreement::join(int stage, const StatementSummary& heard) {
  if (stage == last_stage()) {  // of all ranks
    known_ = heard;
    return;
  }
  known_.least = std::min(known_.least, heard.least);
  known_.greatest = std::max(heard.greatest, known_.greatest);
  known_.balance += heard.balance;
  const bool behind = stage == 0 || sender(stage) > me_;
  known_.carried = behind ? known_.carried + heard.carried : heard.carried + known_.carried;
}

bool Agreement::agree() const {
  return known_.least == known_.greatest && known_.balance == Digest() &&
         known_.carried.size() == unit_ * static_cast<size_t>(parties_);
}

std::string_view Agreement::carried(int party) const {
  const int power = 1 << bits_;
  const int place = party < power ? party + std::min(party, folded()) : 2 * (party - power) + 1;
  return std::string_view(known_.carried).substr(static_cast<size_t>(place) * unit_, unit_);
}

}  // namespace hero::dist

// Regex: a compiled pattern over UTF-32 text (PCRE2, Unicode classes), with the few operations the
// text rules need. Matching is bounded: a search that exceeds PCRE2's step limit counts as "no
// match", so that hostile text costs time in proportion to its length and not more.
//
// Threads: immutable after compile; match state lives on the caller's stack.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "shm/base/status.h"
#include "stage_proc/models/hibari/text/unicode.h"

struct pcre2_real_code_32;

namespace omnistage::hibari {

class RegexMatch {
 public:
  size_t start(size_t group = 0) const { return spans_[2 * group]; }
  size_t end(size_t group = 0) const { return spans_[2 * group + 1]; }
  bool has(size_t group) const { return 2 * group + 1 < spans_.size() && start(group) != kUnset; }
  // Empty for a group that took no part.
  TextView group(size_t i) const {
    return has(i) ? subject_.substr(start(i), end(i) - start(i)) : TextView();
  }
  TextView text() const { return group(0); }
  TextView subject() const { return subject_; }

 private:
  friend class Regex;
  static constexpr size_t kUnset = static_cast<size_t>(-1);
  TextView subject_;
  std::vector<size_t> spans_;
};

class Regex {
 public:
  Regex() = default;
  // INVALID with the pattern and PCRE2's reason.
  static Result<Regex> compile(TextView pattern, bool ignore_case = false);

  // First match at or after `from`; lookbehind sees the text before it.
  bool search(TextView subject, size_t from, RegexMatch* match) const;
  bool matches_at_start(TextView subject) const {
    RegexMatch match;
    return search(subject, 0, &match) && match.start() == 0;
  }

  // Calls `visit(const RegexMatch&)` for each match from left to right; empty matches are passed
  // over.
  template <typename Visit>
  void for_each(TextView subject, Visit visit) const {
    RegexMatch match;
    for (size_t at = 0; at <= subject.size() && search(subject, at, &match);) {
      if (match.end() == match.start()) {
        at = match.end() + 1;
        continue;
      }
      visit(static_cast<const RegexMatch&>(match));
      at = match.end();
    }
  }

  // Replaces each match by what `make(const RegexMatch&)` returns.
  template <typename Make>
  Text replace(TextView subject, Make make) const {
    Text out;
    size_t copied = 0;
    for_each(subject, [&](const RegexMatch& match) {
      out += subject.substr(copied, match.start() - copied);
      out += make(match);
      copied = match.end();
    });
    if (copied == 0) return Text(subject);
    out += subject.substr(copied);
    return out;
  }

 private:
  std::shared_ptr<const pcre2_real_code_32> code_;
};

// Pattern that matches exactly `literal`.
Text regex_escape(TextView literal);

}  // namespace omnistage::hibari

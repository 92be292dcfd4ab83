// hibari_phonemize MODEL_DIR < TEXT: reads lines of text, prints the phonemes of each as one line
// (sentences joined by " | "). For looking at readings and for comparing large texts with another
// implementation.
#include <chrono>
#include <cstdio>
#include <iostream>
#include <string>

#include "stage_proc/models/hibari/text/text_frontend.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: hibari_phonemize MODEL_DIR < TEXT\n");
    return 2;
  }
  using Clock = std::chrono::steady_clock;
  auto ms = [](Clock::duration d) { return std::chrono::duration<double, std::milli>(d).count(); };
  const auto start = Clock::now();
  auto frontend = omnistage::hibari::TextFrontend::load(argv[1]);
  if (!frontend.ok()) {
    std::fprintf(stderr, "hibari_phonemize: %s\n", frontend.status().message().c_str());
    return 1;
  }
  const auto loaded = Clock::now();
  std::string line;
  size_t lines = 0;
  for (; std::getline(std::cin, line); ++lines) {
    const char* separator = "";
    for (const std::string& phonemes : (*frontend)->phonemize(line)) {
      std::cout << separator << phonemes;
      separator = " | ";
    }
    std::cout << '\n';
  }
  std::cout.flush();
  std::fprintf(stderr, "load %.1f ms, %zu lines in %.1f ms\n", ms(loaded - start), lines,
               ms(Clock::now() - loaded));
  return 0;
}

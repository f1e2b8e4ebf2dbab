// Clocks a component alone: one word of stimulus a cycle, what its pins then say as a word.
//
// Words are as wide as Verilator stores the two ports. The response of a cycle is what is there
// before its clock edge.

#include <cstdio>
#include <cstring>
#include <vector>

#include "Vridgeline_accelerator.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    FILE *in = std::fopen(argv[1], "rb");
    FILE *out = std::fopen(argv[2], "wb");
    if (!in || !out) return 2;
    Vridgeline_accelerator top;
    const size_t given = sizeof(top.stimulus), made = sizeof(top.response);
    top.clk = 0;
    top.rst = 0;
    std::memset(&top.stimulus, 0, given);
    top.eval();
    const size_t block = 1 << 12;
    std::vector<unsigned char> words(block * given), answers(block * made);
    for (size_t count; (count = std::fread(words.data(), given, block, in)) != 0;) {
        for (size_t i = 0; i < count; ++i) {
            std::memcpy(&top.stimulus, words.data() + i * given, given);
            top.eval();
            std::memcpy(answers.data() + i * made, &top.response, made);
            top.clk = 1;
            top.eval();
            top.clk = 0;
        }
        if (std::fwrite(answers.data(), made, count, out) != count) return 2;
    }
    top.final();
    return std::fclose(out) ? 2 : 0;
}

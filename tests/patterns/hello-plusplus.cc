// The smallest program of its kind: its size and start are measured beside those of other kinds.
#include <iostream>

int main() {
    std::cout << "hello" << std::endl;
}

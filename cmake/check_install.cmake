# cmake -DBUILD=<build tree> -DSOURCE=<outside project> -DSCRATCH=dir -DCOMPILER=... -DLIMIT=bytes -P ...
# Installs the library into a scratch folder, then configures, builds and runs a small project against it that
# knows nothing but find_package(hero), and whose program must not be larger than LIMIT.
cmake_minimum_required(VERSION 3.25)

function(run what)
  execute_process(COMMAND ${ARGN} OUTPUT_VARIABLE text ERROR_VARIABLE text RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${what} ended with ${result}\n${text}")
  endif()
endfunction()

file(REMOVE_RECURSE ${SCRATCH})
run("installing" ${CMAKE_COMMAND} --install ${BUILD} --prefix ${SCRATCH}/prefix)
# a flat copy, so that nothing of the source tree can be found by a relative path
file(COPY ${SOURCE}/ DESTINATION ${SCRATCH}/outside)
run("configuring the outside project" ${CMAKE_COMMAND} -G Ninja -S ${SCRATCH}/outside
    -B ${SCRATCH}/build -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix -DCMAKE_CXX_COMPILER=${COMPILER})
run("building the outside project" ${CMAKE_COMMAND} --build ${SCRATCH}/build)
run("the outside program" ${CMAKE_COMMAND} -E chdir ${SCRATCH} ${SCRATCH}/build/outside)
run("the outside program on several ranks" ${CMAKE_COMMAND} -E chdir ${SCRATCH}
    ${SCRATCH}/build/outside_ranks --ranks 4)
run("the outside program without CUDA" ${CMAKE_COMMAND} -E chdir ${SCRATCH}
    ${SCRATCH}/build/outside_cpu)
# the project of docs/first_program.md
set(first ${SCRATCH}/outside/first)
file(COPY ${SOURCE}/../../tutorials/examples/train.cpp DESTINATION ${first})
run("configuring the first program" ${CMAKE_COMMAND} -G Ninja -S ${first} -B ${first}/build
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix -DCMAKE_CXX_COMPILER=${COMPILER})
run("building the first program" ${CMAKE_COMMAND} --build ${first}/build)
run("the first program" ${CMAKE_COMMAND} -E chdir ${first} ${first}/build/train --steps 2 --ranks 2
    --strategy fsdp)
if(NOT EXISTS ${first}/runs/first/model.safetensors)
  message(FATAL_ERROR "the first program has saved no model")
endif()
# the programs of docs/guides/pretrained.md, docs/guides/distributions.md and docs/guides/layers.md
set(models ${SCRATCH}/outside/models)
set(examples ${SOURCE}/../../tutorials/examples)
file(COPY ${examples}/llama_lora.cpp ${examples}/policy_gradient.cpp ${examples}/unet.cpp
     DESTINATION ${models})
run("configuring the examples" ${CMAKE_COMMAND} -G Ninja -S ${models} -B ${models}/build
    -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH=${SCRATCH}/prefix -DCMAKE_CXX_COMPILER=${COMPILER})
run("building the examples" ${CMAKE_COMMAND} --build ${models}/build)

# the text of an example is that of its page
function(run_and_compare name)
  execute_process(COMMAND ${CMAKE_COMMAND} -E chdir ${models} ${models}/build/${name} ${ARGN}
                  OUTPUT_VARIABLE text ERROR_VARIABLE errors RESULT_VARIABLE result)
  file(READ ${SOURCE}/${name}.txt expected)
  if(NOT result EQUAL 0 OR NOT text STREQUAL expected)
    message(FATAL_ERROR "${name} ended with ${result}\n${errors}\nand printed\n${text}\nnot\n${expected}")
  endif()
endfunction()
run_and_compare(policy_gradient)
run_and_compare(unet)
set(tokens "")
foreach(i RANGE 299) # a text of 61 tokens that has a rule
  math(EXPR token "(7 * ${i} + ${i} / 10) % 61")
  string(APPEND tokens "${token} ")
endforeach()
file(WRITE ${models}/tokens.txt "${tokens}\n")
run_and_compare(llama_lora --ranks 2 --model ${SOURCE}/../golden/hugging_face/llama --tokens tokens.txt)
if(NOT EXISTS ${models}/tuned/adapters.safetensors OR NOT EXISTS ${models}/tuned/config.json)
  message(FATAL_ERROR "llama_lora has saved no model")
endif()
file(SIZE ${SCRATCH}/build/outside_cpu bytes)
if(bytes GREATER ${LIMIT})
  message(FATAL_ERROR "the stripped program without CUDA has ${bytes} bytes, more than ${LIMIT}")
endif()

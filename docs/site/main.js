"use strict";
// A page has the switch of colours and each part, or not.
if (page.byId("theme")) page.followTheme();
if (page.byId("memory-picture")) calculator.start();
if (page.byId("play-picture")) playground.start();
if (page.byId("pipeline-picture")) pipeline.start();
if (page.byId("fsdp-picture")) fsdp.start();
if (page.byId("collective-rows")) exchange.start();

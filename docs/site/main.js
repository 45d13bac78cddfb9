"use strict";
page.followTheme();
calculator.start();
playground.start();
